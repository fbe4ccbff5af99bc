"""Settings of snapshots: what may be left out, and every mistake with its place."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from talos.system.errors import UserError
from talos.upgrade.release.signature import format_public
from talos.upgrade_controller.config import ClientAccess, load_settings
from talos.upgrade_controller.manifests import make_kind
from talos.upgrade_controller.policy_resource import make_settings
from talos.upgrade_controller.snapshots.config import load_key, open_destination
from talos.upgrade_controller.snapshots.folder import Folder
from talos.upgrade_controller.snapshots.s3 import Bucket

AGE: Any = importlib.import_module("pyrage")
RECIPIENT = str(AGE.x25519.Identity.generate().to_public())
PRIVATE = str(AGE.x25519.Identity.generate())
S3 = {"endpoint": "https://s3.test", "bucket": "backups", "credentials": "key"}
KEY = b"[default]\naws_access_key_id = a\naws_secret_access_key = b\n"


def make_spec(**snapshots: Any) -> dict[str, Any]:
    keys = [format_public(Ed25519PrivateKey.generate().public_key()).decode()]
    channel = {"image": "registry.test/installer:stable", "keys": keys}
    return {"channel": channel, "snapshots": {"recipients": [RECIPIENT], **snapshots}}


def load(tmp_path: Path, **snapshots: Any) -> Any:
    (tmp_path / "release.pub").write_bytes(format_public(Ed25519PrivateKey.generate().public_key()))
    spec = make_spec(**snapshots)
    spec["channel"]["keys"] = ["release.pub"]
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps({**spec, "talosconfig": "talosconfig", "status": "status.json"}))
    return load_settings(path)[0]


def test_what_need_not_be_given(tmp_path: Path) -> None:
    settings = load(tmp_path, folder="backups")
    found = settings.snapshots.section
    assert (found.interval.seconds, found.keep) == (6 * 3600, 28)
    assert settings.snapshots.folder == tmp_path / "backups"
    assert settings == load_settings(tmp_path / "config.yaml")[0], "read again, it is the same"
    assert isinstance(open_destination(settings.snapshots), Folder)


def test_a_bucket_has_a_key_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(KEY)
    settings = load(tmp_path, s3={**S3, "prefix": "demo/"})
    bucket = open_destination(settings.snapshots)
    assert isinstance(bucket, Bucket)
    assert (bucket.endpoint, bucket.region, bucket.prefix, bucket.key.id) == (
        "https://s3.test", "us-east-1", "demo/", "a",
    )  # fmt: skip
    assert "aws_secret" not in repr(settings)
    (tmp_path / "key").unlink()
    with pytest.raises(UserError, match="key: can't be read: No such file"):
        load_settings(tmp_path / "config.yaml")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, "spec.snapshots: has no folder or s3, or both"),
        ({"folder": "/x", "s3": S3}, "spec.snapshots: has no folder or s3, or both"),
        ({"folder": "/x", "recipients": []}, "spec.snapshots.recipients: is empty"),
        ({"folder": "/x", "recipients": [RECIPIENT, "age1x"]}, 'spec.snapshots.recipients[1]: "age1x" is no'),
        ({"folder": "/x", "recipients": [PRIVATE]}, "recipients[0]: a private key is no recipient"),
        ({"folder": "/x", "interval": "5s"}, "spec.snapshots.interval: '5s' is less than 60 s"),
        ({"folder": "/x", "timeout": "0s"}, "spec.snapshots.timeout: '0s' is less than 60 s"),
        ({"folder": "/x", "keep": -1}, "spec.snapshots.keep: "),
        ({"folder": "/x", "keep": 501}, "spec.snapshots.keep: "),
        ({"s3": {**S3, "endpoint": "ftp://x"}}, "spec.snapshots.s3.endpoint: "),
        ({"s3": {**S3, "endpoint": "https://x/y"}}, "spec.snapshots.s3.endpoint: has more than a host"),
        ({"s3": {**S3, "endpoint": "https://me:pw@x"}}, "spec.snapshots.s3.endpoint: has more than a host"),
        ({"s3": {**S3, "bucket": "a/b"}}, "spec.snapshots.s3.bucket: 'a/b' can't be one"),
        ({"s3": {**S3, "region": "eu 1"}}, "spec.snapshots.s3.region: 'eu 1' can't be one"),
        ({"s3": {**S3, "prefix": "../x"}}, "spec.snapshots.s3.prefix: '../x' can't be one"),
        ({"s3": {**S3, "prefix": "/x"}}, "spec.snapshots.s3.prefix: '/x' can't be one"),
        ({"s3": {"bucket": "x"}}, "spec.snapshots.s3.endpoint: is missing"),
    ],
)
def test_mistakes_name_their_place(more: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError) as caught:
        make_settings(make_spec(**more), ClientAccess(talosconfig=Path("/talosconfig")))
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert PRIVATE not in str(caught.value)


def test_a_secret_without_a_key_is_named() -> None:
    settings = make_settings(make_spec(s3=S3), ClientAccess(talosconfig=Path("/talosconfig")))
    assert settings.snapshots
    assert settings.snapshots.key is None, "resources have it in a Secret"
    with pytest.raises(UserError, match=r"spec\.snapshots\.s3\.credentials: key: has no key"):
        load_key(settings.snapshots, lambda _: b"")
    assert load_key(settings.snapshots, lambda _: KEY).key


def test_the_schema_has_them() -> None:
    (version,) = make_kind()["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["snapshots"]
    assert spec["required"] == ["recipients"]
    assert spec["properties"]["keep"] == {
        "description": "how many stay, 0 for all", "type": "integer", "minimum": 0, "maximum": 500,
    }  # fmt: skip
    assert spec["properties"]["s3"]["required"] == ["endpoint", "bucket", "credentials"]
