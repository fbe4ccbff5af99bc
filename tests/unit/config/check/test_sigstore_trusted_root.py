"""``SigstoreTrustedRootConfig``: what is no trusted root is refused where it is applied."""

import json
from pathlib import Path

import pytest

from talos.config.check.documents import check_document
from talos.config.read.loader import load

EXAMPLE = Path(__file__).parents[4] / "docs/examples/SigstoreTrustedRootConfig.yaml"
HEAD = "apiVersion: v1alpha1\nkind: SigstoreTrustedRootConfig\n"
TYPE = "application/vnd.dev.sigstore.trustedroot+json;version=0.1"


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
