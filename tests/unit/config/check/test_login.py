"""``OIDCLoginConfig``: every mistake with its place."""

import pytest

from talos.config.check.documents import check_document
from talos.config.effective.login import login
from talos.config.problem import ConfigError
from talos.config.read.loader import load

HEADER = "apiVersion: v1alpha1\nkind: OIDCLoginConfig\n"
GOOD = "issuer: https://id.example/a\nclientID: c\nrules: [{claims: {groups: ops}, roles: [os:reader]}]\n"


def find(text: str) -> list[tuple[str, str]]:
    """Places and messages."""
    (document,) = load(HEADER + text).documents
    return [(note.path, note.message) for note in check_document(document)]


def test_a_good_one_has_its_defaults() -> None:
    assert find(GOOD) == []
    settings = login(load(HEADER + GOOD))
    assert settings is not None
    assert (settings.issuer, settings.name_claim, settings.ttl) == ("https://id.example/a", "sub", 3600)
    assert settings.rules[0].roles == ("os:reader",)
    assert login(load("")) is None


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("", ["issuer", "clientID", "rules"]),
        (GOOD.replace("/a", "/a?b=c"), ["issuer"]),
        (GOOD.replace("id.", "user@id."), ["issuer"]),
        (GOOD + "certificateTTL: 4m", ["certificateTTL"]),
        (GOOD + "certificateTTL: 25h", ["certificateTTL"]),
        (GOOD + "ca: none", ["ca"]),
        (GOOD + 'scopes: [a, "b c", ""]', ["scopes[1]", "scopes[2]"]),
        (GOOD.replace("claims: {groups: ops}", "claims: {}"), ["rules[0].claims"]),
        (GOOD.replace("claims: {groups: ops}, ", ""), ["rules[0].claims"]),
        (GOOD.replace("groups: ops", 'groups: ""'), ["rules[0].claims[groups]"]),
        (GOOD.replace(", roles: [os:reader]", ""), ["rules[0].roles"]),
    ],
)
def test_a_mistake_has_its_place(text: str, places: list[str]) -> None:
    assert [place for place, _ in find(text)] == places


@pytest.mark.parametrize("role", ["os:impersonator", "os:image:verifier", "OS:ADMIN", "system:masters"])
def test_roles_are_those_for_people(role: str) -> None:
    with pytest.raises(ConfigError, match=role):
        load(HEADER + GOOD.replace("os:reader", f'"{role}"'))


def test_the_issuer_is_called_by_https() -> None:
    with pytest.raises(ConfigError, match="issuer"):
        load(HEADER + GOOD.replace("https", "http"))
