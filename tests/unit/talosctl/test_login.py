"""``talosctl login``: at a running trustd and issuer, by a person who agrees and by a token of a file."""

import asyncio
import io
import json
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.harness.issuer import CLIENT, METADATA, Issuer, serve_issuer
from tests.unit.trustd.login.door import Door, make_config, open_door

from talos.api.login.login_pb2 import DescribeReply
from talos.config.talosconfig.model import Context, TalosConfig
from talos.config.talosconfig.places import open_talosconfig, save
from talos.pki.certificate import has_key, parse_certificate
from talos.pki.keys import parse_key
from talos.pki.names import organizations_of
from talos.process.device_flow import GRANT
from talos.talosctl.cli.exit import Exit
from talos.talosctl.client.refresh_tokens import RefreshTokens
from talos.talosctl.main import run

DEVICE = {
    "device_code": "d",
    "user_code": "WDJB-MJHT",
    "verification_uri": "https://id.example/device",
    "interval": 1,
    "expires_in": 600,
}


@contextmanager
def serving_door(config: Any) -> Generator[Door]:
    """trustd in a thread."""
    loop, opened = asyncio.new_event_loop(), list[Door]()
    ready, done = threading.Event(), asyncio.Event()

    async def main() -> None:
        async with open_door(config) as door:
            opened.append(door)
            ready.set()
            await done.wait()

    def work() -> None:
        try:
            loop.run_until_complete(main())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert ready.wait(20)
        yield opened[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()


@pytest.fixture
def issuer(tmp_path: Path) -> Generator[Issuer]:
    with serve_issuer(tmp_path) as issuer:
        yield issuer


@pytest.fixture
def door(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> Generator[Door]:
    with serving_door(make_config(issuer, more="scopes: [groups]")) as door:
        monkeypatch.setattr("talos.talosctl.client.login.TRUSTD_PORT", door.port)
        yield door


@pytest.fixture
def path(tmp_path: Path, door: Door) -> Path:
    path = tmp_path / "talosconfig"
    context = Context(endpoints=("127.0.0.1",), nodes=("10.0.0.2",), ca=door.ca.crt)
    save(TalosConfig(context="home", contexts={"home": context}), path)
    return path


def login(path: Path, *arguments: str) -> int:
    return run(["login", "--talosconfig", str(path), *arguments])


def test_a_person_agrees_and_has_a_certificate(
    issuer: Issuer, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = {"access_token": "a", "id_token": issuer.token(), "token_type": "Bearer"}
    issuer.grants += [(200, DEVICE), (400, {"error": "authorization_pending"}), (200, token)]
    assert login(path) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "visit https://id.example/device and enter the code WDJB-MJHT" in shown.err
    assert 'context "home" has os:etcd:backup, os:operator until' in shown.err
    assert issuer.forms == [
        {"client_id": CLIENT, "scope": "openid groups"},
        *[{"grant_type": GRANT, "device_code": "d", "client_id": CLIENT}] * 2,
    ]
    context = open_talosconfig(str(path))[0].current
    certificate = parse_certificate(context.crt)
    assert organizations_of(certificate.subject) == ["os:etcd:backup", "os:operator"]
    assert has_key(certificate, parse_key(context.key, where="key"))
    assert (context.endpoints, context.nodes) == (("127.0.0.1",), ("10.0.0.2",))
    assert path.stat().st_mode & 0o777 == 0o600


def make_reply(issuer: Issuer, refresh: str = "", **claims: Any) -> tuple[int, dict[str, Any]]:
    reply = {"access_token": "a", "id_token": issuer.token(**claims), "token_type": "Bearer"}
    return 200, reply | ({"refresh_token": refresh} if refresh else {})


def read_tokens(path: Path) -> list[str]:
    entries = json.loads(path.with_name(f"{path.name}.login").read_text())
    return [entry["refresh_token"] for entry in entries.values()]


def test_a_refresh_token_renews_it_without_a_person(
    issuer: Issuer, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    issuer.grants += [(200, DEVICE), make_reply(issuer, "one")]
    assert login(path) == 0
    file = path.with_name(f"{path.name}.login")
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_tokens(path) == ["one"]
    first = open_talosconfig(str(path))[0].current
    capsys.readouterr()
    issuer.forms.clear()
    issuer.grants.append(make_reply(issuer, "two", groups=["all", "ops"]))
    assert login(path) == 0
    assert "visit" not in capsys.readouterr().err
    assert issuer.forms == [{"grant_type": "refresh_token", "refresh_token": "one", "client_id": CLIENT}]
    assert read_tokens(path) == ["two"], "the one before is of no use"
    assert open_talosconfig(str(path))[0].current.crt != first.crt
    issuer.grants.append(make_reply(issuer))
    assert login(path) == 0
    assert read_tokens(path) == ["two"], "it is good for several"


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ((400, {"error": "invalid_grant"}), []),
        ((400, {"error": "unauthorized_client"}), ["one"]),
        ((200, {"access_token": "a", "token_type": "Bearer"}), ["one"]),
    ],
)
def test_without_a_token_by_it_a_person_is_prompted(
    issuer: Issuer, path: Path, capsys: pytest.CaptureFixture[str], answer: Any, kept: list[str]
) -> None:
    issuer.grants += [(200, DEVICE), make_reply(issuer, "one")]
    assert login(path) == 0
    capsys.readouterr()
    issuer.grants += [answer, (403, {"error": "access_denied"})]
    assert login(path) == Exit.FAILED
    assert read_tokens(path) == kept
    issuer.grants += [*([answer] if kept else []), (200, DEVICE), make_reply(issuer)]
    assert login(path) == 0
    assert "enter the code WDJB-MJHT" in capsys.readouterr().err
    assert read_tokens(path) == [], "the issuer gave none"


def test_a_refresh_token_goes_to_its_issuer_alone(issuer: Issuer, path: Path) -> None:
    settings = DescribeReply(issuer=issuer.url, client_id=CLIENT, ca=issuer.ca)
    tokens = RefreshTokens(talosconfig=path, context="home")
    tokens.keep(settings, "secret")
    assert tokens.find(settings) == "secret"
    for change in ({"issuer": f"{issuer.url}/"}, {"client_id": "other"}, {"ca": ""}):
        other = DescribeReply()
        other.CopyFrom(settings)
        for name, value in change.items():
            setattr(other, name, value)
        assert tokens.find(other) == ""
    assert RefreshTokens(talosconfig=path, context="work").find(settings) == ""
    for text in ("{", "[]", '{"home": 5}', '{"home": {"refresh_token": ["x"]}}', "[" * 100_000):
        tokens.path.write_text(text)
        assert tokens.find(settings) == ""
    tokens.keep(settings, "again")
    tokens.keep(settings, "two\nlines")
    assert tokens.find(settings) == ""


def test_an_issuer_that_is_down_costs_no_token(
    issuer: Issuer, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    issuer.grants += [(200, DEVICE), make_reply(issuer, "one")]
    assert login(path) == 0
    issuer.grants.append((503, {}))
    assert login(path) == Exit.FAILED
    assert "replied 503" in capsys.readouterr().err
    assert read_tokens(path) == ["one"]


def test_a_token_of_a_file_renews_it(
    issuer: Issuer, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(issuer.token() + "\n")
    assert login(path, "--token-file", str(file)) == 0
    first = open_talosconfig(str(path))[0].current
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert login(path, "--token-file", "-") == 0
    second = open_talosconfig(str(path))[0].current
    assert first.crt != second.crt
    assert first.key != second.key
    assert first.ca == second.ca


def test_what_goes_wrong_has_its_reason(
    issuer: Issuer, door: Door, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"

    def fail(text: str, message: str, code: Exit) -> None:
        file.write_text(text)
        assert login(path, "--token-file", str(file)) == code
        shown = capsys.readouterr().err
        assert message in shown
        assert len(shown.splitlines()) == 1, shown

    before = path.read_bytes()
    fail("two words", "it holds no token", Exit.FAILED)
    fail(
        issuer.token(aud="other"),
        "code = Unauthenticated desc = the token does not count: Audience doesn't match",
        Exit.REFUSED,
    )
    fail(issuer.token(groups="none"), "no rule of the config matches", Exit.REFUSED)
    del issuer.pages[METADATA]
    assert login(path) == Exit.FAILED
    assert "404" in capsys.readouterr().err
    door.server.set_config(None)
    fail(issuer.token(), "the nodes have no OIDCLoginConfig", Exit.REFUSED)
    assert path.read_bytes() == before
    config, _ = open_talosconfig(str(path))
    save(config.with_context("home", replace(config.current, ca=b"")), path)
    fail(issuer.token(), "it has no `ca`", Exit.FAILED)
