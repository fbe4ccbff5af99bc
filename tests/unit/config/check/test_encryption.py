"""Secrets that would be in etcd in the clear are reported."""

import pytest
import yaml

from talos.config.check.validate import validate
from talos.config.read.loader import load

SECRET = "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3I="
KEYS = {"keys": [{"name": "key1", "secret": SECRET}]}
TEXT = "Secrets lie in etcd in the clear"


CASES: list[tuple[bool, bool, list[object], bool]] = [
    (False, False, [], True),
    (False, False, [{"identity": {}}], True),
    (True, False, [], False),
    (False, True, [], False),
    (False, False, [{"secretbox": KEYS}, {"identity": {}}], False),
    (False, False, [{"kms": {"name": "mine"}}], False),
]


def find(config: str, *, secretbox: bool, aescbc: bool, providers: list[object]) -> list[str]:
    """The notes on a config without any encryption but this."""
    main, *documents = yaml.safe_load_all(config)
    documents = [one for one in documents if one["kind"] != "KubeEtcdEncryptionConfig"]
    for name, is_there in (("secretbox", secretbox), ("aescbc", aescbc)):
        main["cluster"].pop(f"{name}EncryptionSecret", None)
        if is_there:
            main["cluster"][f"{name}EncryptionSecret"] = SECRET
    if providers:
        chosen = {"resources": [{"resources": ["secrets"], "providers": providers}]}
        kind = {"apiVersion": "v1alpha1", "kind": "KubeEtcdEncryptionConfig"}
        documents.append({**kind, "config": chosen})
    report = validate(load(yaml.safe_dump_all([main, *documents]).encode()))
    return [str(note) for note in report.notes if TEXT in str(note)]


@pytest.mark.parametrize(
    ("secretbox", "aescbc", "providers", "is_named"),
    CASES,
)
def test_secrets_in_the_clear_are_named(
    control_plane: str, secretbox: bool, aescbc: bool, providers: list[object], is_named: bool
) -> None:
    found = find(control_plane, secretbox=secretbox, aescbc=aescbc, providers=providers)
    assert bool(found) is is_named, found


def test_a_worker_hears_nothing(worker: str) -> None:
    assert find(worker, secretbox=False, aescbc=False, providers=[]) == []
