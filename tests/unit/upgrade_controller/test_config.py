"""The controller's config: defaults, paths, and every mistake with its place."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from talos.system.errors import UserError
from talos.upgrade.release.signature import format_public
from talos.upgrade_controller.config import load_settings, make_settings
from talos.upgrade_controller.credentials import parse_credentials

LEAST = """\
channel: {image: "registry.test/installer:stable", keys: [release.pub]}
talosconfig: talosconfig
status: /run/status.json
"""
KEY = Ed25519PrivateKey.generate().public_key()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The file's path; what it names is beside it."""
    (tmp_path / "release.pub").write_bytes(format_public(KEY))
    return tmp_path / "config.yaml"


def test_what_need_not_be_said(place: Path) -> None:
    settings, status = make_settings(LEAST.encode(), place)
    assert settings.keys == (KEY,)
    assert settings.access.talosconfig == place.parent / "talosconfig"
    assert status == Path("/run/status.json")
    assert settings.windows == ()
    config = settings.policy
    assert (config.parallel, config.paused, config.interval.seconds) == (1, False, 300)
    assert config.nodes.hostnames == ("*",)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("paralel: 2", 'config.yaml:4:1: paralel: unknown key (did you mean "parallel"?)'),
        ("parallel: 0", "config.yaml:4:11: parallel: "),
        ("parallel: many", "parallel: "),
        ("paused: maybe", "paused: "),
        ("interval: 5", "interval: "),
        ("maxUnavailable: some", "maxUnavailable: 'some' is no number of nodes"),
        ("nodes: {roles: [master]}", "nodes.roles[0]: "),
        ("nodes: {matchLabels: [a]}", "nodes.matchLabels: "),
        ("nodes: {matchExpressions: [{key: a, operator: Gt}]}", "nodes.matchExpressions[0].operator: "),
        ("nodes: {matchExpressions: [{key: a, operator: In}]}", "matchExpressions[0].values: is empty"),
        (
            "nodes: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}",
            "matchExpressions[0].values: is not empty",
        ),
        ('windows: [{from: "22:00"}]', "windows[0].to: "),
        ('windows: [{from: "22:00", to: "26:00"}]', "windows[0].to: '26:00' is no time of the day"),
        ('windows: [{days: [someday], from: "22:00", to: "23:00"}]', "windows[0].days[0]: "),
        ("status: again", "status: "),
        ("--- {}", "holds 2 documents"),
    ],
)
def test_mistakes_have_a_place(place: Path, more: str, text: str) -> None:
    with pytest.raises(UserError) as caught:
        make_settings(f"{LEAST}{more}\n".encode(), place)
    assert text in str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "[]", "talosconfig: x", "channel: {}", "\x00", "a: &a [*a]", "{" * 5000]
)
def test_files_that_are_something_else(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"config\.yaml"):
        load_settings(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't be read: No such file"):
        load_settings(tmp_path / "config.yaml")


def test_what_it_names_is_read(place: Path) -> None:
    (place.parent / "release.pub").write_text("no key")
    with pytest.raises(UserError, match=r"release\.pub: is no public Ed25519 key in PEM"):
        make_settings(LEAST.encode(), place)
    (place.parent / "release.pub").unlink()
    with pytest.raises(UserError, match=r"release\.pub: No such file"):
        make_settings(LEAST.encode(), place)


def test_credentials_are_beside_it(place: Path) -> None:
    auths = {"https://registry.test/v2/": {"username": "me", "password": "a:b"}}
    (place.parent / "login.json").write_text(json.dumps({"auths": auths}))
    text = LEAST.replace("keys:", "credentials: login.json, keys:")
    settings, _ = make_settings(text.encode(), place)
    assert settings.credentials.find("registry.test") == "Basic bWU6YTpi"
    assert settings.credentials.find("other.test") == ""
    assert "a:b" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no auths"),
        ("[" * 100_000, "has no auths"),
        ('{"auths": []}', "has no auths"),
        ('{"auths": {}, "credsStore": "desktop"}', "leaves the password to another program (credsStore)"),
        ('{"auths": {"r.test": 5}}', "auths['r.test']: has no user with a password"),
        ('{"auths": {"r.test": {"auth": "?"}}}', "has no user with a password"),
        ('{"auths": {"r.test": {"auth": "bWU="}}}', "has no user with a password"),
        ('{"auths": {"r.test": {"identitytoken": "x"}}}', "an identity token can't be used"),
        ('{"auths": {"r.test": {"username": "a", "password": "b\\nc"}}}', "has no user with a password"),
    ],
)
def test_credentials_that_are_none(text: str, reason: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_credentials(text.encode(), where="login.json")
    assert str(caught.value).startswith("login.json: ")
    assert reason in str(caught.value)
