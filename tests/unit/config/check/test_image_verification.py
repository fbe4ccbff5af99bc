"""``ImageVerificationConfig``: rules without keys."""

import pytest

from talos.config.check.documents import check_document
from talos.config.read.loader import load

HEADER = "apiVersion: v1alpha1\nkind: ImageVerificationConfig\nrules: [{image: '*', keyless: %s}]"


def find(keyless: str) -> list[tuple[str, str]]:
    """Places and messages."""
    (document,) = load(HEADER % keyless).documents
    return [(note.path, note.message) for note in check_document(document)]


@pytest.mark.parametrize(
    "keyless",
    [
        "{issuer: 'https://a', subject: b}",
        "{issuer: 'https://a', subjectRegex: '^b@(c|d)\\.example$'}",
        "{issuer: 'https://a', subject: b, subjectRegex: '(?i)B'}",
    ],
)
def test_rules_that_are_good(keyless: str) -> None:
    assert find(keyless) == []


@pytest.mark.parametrize("pattern", ["[", "(?P<a", "*", "\\pL", "[[:alpha:]]", "(" * 200, "a{99999999999}"])
def test_patterns_that_mean_something_else_in_python(pattern: str) -> None:
    found = find(f"{{issuer: 'https://a', subjectRegex: '{pattern}'}}")
    ((path, message),) = found
    assert path == "rules[0].keyless.subjectRegex"
    assert message.startswith(f'"{pattern[:1]}')
    assert "is no pattern that nodes have" in message


def test_rules_without_an_identity() -> None:
    assert [path for path, _ in find("{}")] == ["rules[0].keyless.issuer", "rules[0].keyless"]
