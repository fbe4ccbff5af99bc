"""A config that a person lets the machine have: the device flow, against servers of every kind of manners."""

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from typing import Any, override
from urllib.parse import parse_qsl

import pytest
import trio
from tests.harness.serving import serving
from trio.testing import MockClock

from talos.machined.platform.config_sources.oauth import make_client
from talos.machined.platform.config_sources.web import WebSource
from talos.process.device_flow import GRANT, Client, DeviceFlow
from talos.process.fetch import FetchError
from talos.resource import ids, kinds
from talos.resource.changes import modify
from talos.resource.memory.state import MemoryState
from talos.system.errors import UserError
from talos.system.files import KernelFiles
from talos.system.proc.cmdline import parse_cmdline

DEVICE = {
    "device_code": "d",
    "user_code": "WDJB-\x1bMJHT",
    "verification_uri": "https://id.example/device",
    "verification_uri_complete": "https://id.example/device?code=WDJB",
    "interval": 1,
    "expires_in": 600,
}
PENDING = (400, {"error": "authorization_pending"})


@dataclass
class Issuer:
    """The servers of OAuth and the config's. A token is good for the config once it is in ``good``."""

    replies: list[tuple[int, Any]]
    good: str = "two"
    forms: list[tuple[str, dict[str, str]]] = field(default_factory=list[tuple[str, dict[str, str]]])
    url: str = ""

    def answer(self, path: str, form: Mapping[str, str]) -> tuple[int, Any]:
        self.forms.append((path, dict(form)))
        return (200, DEVICE) if path == "/device/code" else self.replies.pop(0)


@pytest.fixture
def issuer() -> Generator[Issuer]:
    tokens = [{"access_token": token, "token_type": "Bearer"} for token in ("one", "two")]
    issuer = Issuer([PENDING, (200, tokens[0]), (400, {"error": "slow_down"}), (200, tokens[1])])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            status, reply = issuer.answer(self.path, form)
            self.reply(status, json.dumps(reply).encode())

        def do_GET(self) -> None:
            is_good = self.headers["Authorization"] == f"Bearer {issuer.good}"
            self.reply(200 if is_good else 401, b"config")

        def reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        issuer.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield issuer


async def test_a_person_lets_the_machine_have_its_config(issuer: Issuer, autojump_clock: MockClock) -> None:
    # It would jump while a request is under way in a thread.
    autojump_clock.autojump_threshold, autojump_clock.rate = inf, 200
    state, reported, shown = MemoryState(), list[str](), list[str]()
    await modify(state, *ids.NETWORK_STATUS, lambda spec: setattr(spec, "address_ready", True))
    await modify(state, kinds.META_KEY, "0x0f", lambda spec: setattr(spec, "value", "1234"))
    source = WebSource(state=state, files=KernelFiles(), report=reported.append, inform=shown.append)
    arguments = " ".join(
        f"talos.config.oauth.{text}"
        for text in ("client_id=us", "client_secret=secret", "scope=a", "scope=b", "extra_variable=uuid")
    )
    assert await source.load(f"{issuer.url}/c", arguments=parse_cmdline(arguments)) == b"config"
    device = ("/device/code", {"client_id": "us", "scope": "a b", "uuid": "1234"})
    ours = {"client_id": "us", "client_secret": "secret"}
    token = ("/token", {"grant_type": GRANT, "device_code": "d", **ours})
    assert issuer.forms == [device, token, token, device, token, token]
    (line,) = reported
    assert "the server replied 401" in line
    assert "visit https://id.example/device and enter the code WDJB-?MJHT" in shown[0]
    assert shown[1].endswith("visit https://id.example/device?code=WDJB")
    assert "secret" not in str(shown + reported)


async def test_an_url_without_a_client_is_fetched_as_it_is(issuer: Issuer) -> None:
    issuer.good, state = "", MemoryState()
    await modify(state, *ids.NETWORK_STATUS, lambda spec: setattr(spec, "address_ready", True))

    async def fetch(url: str, headers: Mapping[str, str], _: object) -> Any:
        await trio.lowlevel.checkpoint()
        assert not headers
        raise UserError(url)

    source = WebSource(state=state, files=KernelFiles(), report=print, inform=print, fetch=fetch)
    with pytest.raises(UserError):
        await source.load(f"{issuer.url}/c", arguments=parse_cmdline("talos.config.oauth.scope=a"))
    assert issuer.forms == []


@pytest.mark.parametrize(
    ("device", "token", "message"),
    [
        ((200, "text"), PENDING, "/device/code replied 200 without what the standard has in it"),
        ((400, {"error": "invalid\nclient"}), PENDING, "replied 400 invalid?client"),
        ((200, DEVICE), (400, {"error": "no", "error_description": "why"}), "replied 400 no: why"),
        ((200, DEVICE), PENDING, "its code has expired before it was confirmed"),
        ((200, DEVICE | {"interval": 10**400, "expires_in": float("nan")}), PENDING, "has expired"),
        ((200, DEVICE), (200, {"access_token": "a\nb", "token_type": "bearer"}), "no access_token"),
        ((200, DEVICE), (200, {"access_token": "a", "token_type": "mac"}), "of the type bearer"),
    ],
)
async def test_a_flow_that_comes_to_nothing_has_its_reason(
    device: tuple[int, Any], token: tuple[int, Any], message: str, autojump_clock: MockClock
) -> None:
    async def post(url: str, *_: object) -> tuple[int, bytes]:
        await trio.lowlevel.checkpoint()
        status, reply = device if url.endswith("/device/code") else token
        return status, json.dumps(reply).encode()

    client = make_client(parse_cmdline("talos.config.oauth.client_id=us"), "https://id.example/a?b=c")
    flow = DeviceFlow(client=client, variables={}, inform=print, environment={}, post=post)
    with pytest.raises(FetchError) as caught:
        await flow.authorize()
    assert message in str(caught.value)
    assert autojump_clock.current_time() <= 3600 + 60


def test_servers_are_those_of_the_config_or_others() -> None:
    prefix = "talos.config.oauth."
    text = f"{prefix}client_id=us {prefix}audience=them {prefix}token_url=https://b.example/t"
    assert make_client(parse_cmdline(text), "http://a.example:8080/c?x=y") == Client(
        id="us",
        secret="",
        scope="",
        audience="them",
        device_url="http://a.example:8080/device/code",
        token_url="https://b.example/t",
    )
    for wrong, message in (
        ("extra_variable=UUID", r'there is no variable "UUID" \(use one of uuid, '),
        ("device_auth_url=ftp://a", "is no URL"),
    ):
        with pytest.raises(UserError, match=f"{prefix}{wrong.partition('=')[0]}: .*{message}"):
            make_client(parse_cmdline(f"{prefix}client_id=us {prefix}{wrong}"), "http://a/")
