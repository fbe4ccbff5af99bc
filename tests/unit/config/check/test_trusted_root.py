"""``SigstoreTrustedRootConfig``: what is no trusted root is refused where it is applied."""

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.harness.rekor2 import Rekor2
from tests.harness.sigstore import Sigstore

from talos.config.check.documents import check_document
from talos.config.check.trusted_root import find_trusted_root_warnings
from talos.config.read.loader import load

EXAMPLE = Path(__file__).parents[4] / "docs/examples/SigstoreTrustedRootConfig.yaml"
HEAD = "apiVersion: v1alpha1\nkind: SigstoreTrustedRootConfig\n"
TYPE = "application/vnd.dev.sigstore.trustedroot+json;version=0.1"


def make_document(root: object) -> str:
    return f"{HEAD}trustedRoot: {json.dumps(json.dumps(root))}"


def find(text: str) -> list[tuple[str, str]]:
    """Places and messages."""
    (document,) = load(text).documents
    return [(note.path, note.message) for note in check_document(document)]


def test_the_example_is_good() -> None:
    assert find(EXAMPLE.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ("", "is missing"),
        ("{", "is no trusted root"),
        ("[" * 100_000, "is no trusted root"),
        ("[]", "is no trusted root"),
        ('{"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json"}', "is no trusted root"),
        (json.dumps({"mediaType": TYPE, "tlogs": [" " * 1024 * 1024]}), "has more than 1048576 bytes"),
    ],
)
def test_texts_that_are_none(root: str, message: str) -> None:
    ((path, found),) = find(f"{HEAD}trustedRoot: {json.dumps(root)}")
    assert path == "trustedRoot"
    assert found.startswith(message)


def test_authorities_and_both_logs_are_there() -> None:
    root = json.dumps({"mediaType": TYPE, "tlogs": [], "ctlogs": {}})
    assert [message.partition(":")[0] for _, message in find(f"{HEAD}trustedRoot: {json.dumps(root)}")] == [
        "has no certificateAuthorities",
        "has no tlogs",
        "has no ctlogs",
    ]


def change(path: str, value: object) -> dict[str, Any]:
    """A good one with one other value."""
    root: Any = copy.deepcopy(GOOD)
    *places, last = path.split(".")
    part = root
    for place in places:
        part = part[int(place) if place.isdecimal() else place]
    part[last] = value
    return root


GOOD: Any = json.loads(json.dumps(Rekor2().trust(Sigstore().trusted_root())))
CERTIFICATE = "certificateAuthorities[0].certChain.certificates[0].rawBytes"
STAMPS = "timestampAuthorities[0].certChain.certificates[0].rawBytes"


def test_a_log_of_rekor_2_and_an_authority_of_timestamps_are_good() -> None:
    assert find(make_document(GOOD)) == []
    assert find(make_document({**GOOD, "timestampAuthorities": []})) == []


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("certificateAuthorities.0.certChain", [], CERTIFICATE[:-12] + " is empty"),
        (
            "certificateAuthorities.0.certChain.certificates.0.rawBytes",
            "!",
            f"{CERTIFICATE} is not in base64",
        ),
        (
            "certificateAuthorities.0.certChain.certificates.0.rawBytes",
            None,
            f"{CERTIFICATE} is not in base64",
        ),
        (
            "certificateAuthorities.0.certChain.certificates.0.rawBytes",
            "MA==",
            f"{CERTIFICATE} is no certificate",
        ),
        (
            "certificateAuthorities.0.validFor.start",
            None,
            "certificateAuthorities[0].validFor.start is no time",
        ),
        ("tlogs.0.publicKey.validFor.end", "2025-05-05", "tlogs[0].publicKey.validFor.end is no time"),
        ("tlogs.0.publicKey.validFor.end", [], "tlogs[0].publicKey.validFor.end is no time"),
        ("timestampAuthorities.0.certChain", [], STAMPS[:-12] + " is empty"),
        (
            "timestampAuthorities.0.certChain.certificates.0.rawBytes",
            "MA==",
            f"{STAMPS} is no certificate",
        ),
        ("timestampAuthorities.0.validFor.start", None, "timestampAuthorities[0].validFor.start is no time"),
        ("tlogs.1.publicKey.validFor.start", "x", "tlogs[1].publicKey.validFor.start is no time"),
        ("ctlogs.0.logId.keyId", 7, "ctlogs[0].logId.keyId is not in base64"),
        ("ctlogs.0.publicKey.rawBytes", "MA==", "ctlogs has no key that can be used"),
    ],
)
def test_damaged_parts_are_named(path: str, value: object, message: str) -> None:
    ((place, found),) = find(make_document(change(path, value)))
    assert place == "trustedRoot"
    assert found.startswith(message)


def warn(root: Any, year: int = 2026) -> list[str]:
    config = load(make_document(root))
    return [note.message for note in find_trusted_root_warnings(config, datetime(year, 1, 2, tzinfo=UTC))]


def test_what_ended_is_a_warning_when_nothing_else_is_there() -> None:
    root = change("tlogs.0.publicKey.validFor.end", "2025-05-05T12:00:00Z")
    assert warn(root) == []
    del root["tlogs"][1]
    assert warn(root) == ["all tlogs ended by 2025-05-05: only older signatures count"]
    root["tlogs"].append(GOOD["tlogs"][0])
    assert warn(root) == []
    root = change("timestampAuthorities.0.validFor.end", "2025-05-05T12:00:00Z")
    assert warn(root) == ["all timestampAuthorities ended by 2025-05-05: only older timestamps count"]
    authorities, timestamps = warn(GOOD, 9999)
    assert authorities.startswith("all certificateAuthorities ended by ")
    assert timestamps.startswith("all timestampAuthorities ended by ")
    assert warn({"tlogs": 7, "ctlogs": [{"publicKey": 1}], "certificateAuthorities": [[]]}) == []


@pytest.mark.parametrize("url", [None, "", 7, "https://[", "log.example"])
def test_a_log_without_the_host_that_its_checkpoints_name_is_a_warning(url: object) -> None:
    text = "tlogs[1].baseUrl names no host: if it is of Rekor 2, its entries don't count"
    assert warn(change("tlogs.1.baseUrl", url)) == [text]
    assert find(make_document(change("tlogs.1.baseUrl", url))) == []
