"""A config's URL: what is filled in, and a server of every kind of manners."""

import ssl
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.harness.serving import serving
from tests.harness.tls import make_server_tls

from talos.api.definitions import enums_pb2 as enums
from talos.machined.platform.config_sources.variables import fill_url, find_variables
from talos.machined.platform.config_sources.web import WebSource
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType
from talos.process.fetch import MAX_BYTES, FetchError, NotThereError, fetch
from talos.resource import ids, kinds
from talos.resource.changes import modify
from talos.resource.memory.state import MemoryState
from talos.system.errors import UserError
from talos.system.files import KernelFiles


@dataclass
class Site:
    """A web server whose answers are scripted: status, headers, body of each path, one after another."""

    answers: dict[str, list[tuple[int, dict[str, str], bytes]]]
    requests: list[str] = field(default_factory=list[str])
    tokens: list[str] = field(default_factory=list[str])
    """The header of this name, of each request."""
    authorizations: list[str] = field(default_factory=list[str])
    """What it got as a proxy."""
    url: str = ""

    @contextmanager
    def serving(self, tls: ssl.SSLContext | None = None) -> Generator[str]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.requests.append(self.path)
                site.tokens.append(self.headers.get("X-Token", ""))
                site.authorizations.append(self.headers.get("Proxy-Authorization", ""))
                answers = site.answers[self.path]
                status, headers, body = answers.pop(0) if len(answers) > 1 else answers[0]
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                del format, args

        listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        with serving(listening, tls) as server:
            self.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
            yield self.url


def site(**answers: tuple[int, dict[str, str], bytes]) -> Site:
    return Site({f"/{path}": [answer] for path, answer in answers.items()})


def test_a_file_is_fetched_also_by_way_of_another() -> None:
    with site(a=(302, {"Location": "/b"}, b""), b=(200, {}, b"text")).serving() as url:
        assert fetch(f"{url}/a").data == b"text"
        assert fetch(f"{url}/a").url == f"{url}/b"


def test_headers_go_to_the_server_that_they_are_for_and_no_other() -> None:
    other = site(b=(200, {}, b"text"))
    with other.serving() as elsewhere:
        first = Site(
            {"/a": [(302, {"Location": "/b"}, b"")], "/b": [(302, {"Location": f"{elsewhere}/b"}, b"")]}
        )
        with first.serving() as url:
            assert fetch(f"{url}/a", {"X-Token": "secret"}).data == b"text"
    assert (first.tokens, other.tokens) == (["secret", "secret"], [""])


def test_a_server_leads_nowhere_but_to_the_web() -> None:
    with (
        site(a=(302, {"Location": "file:///etc/passwd"}, b"")).serving() as url,
        pytest.raises(FetchError),
    ):
        fetch(f"{url}/a")
    for url in ("file:///etc/passwd", "ftp://127.0.0.1/a", "nonsense", "http://[::1/"):
        with pytest.raises(FetchError):
            fetch(url)


def test_what_is_requested_by_https_does_not_come_by_http(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who stands in the path would choose the config."""
    authority = CertificateAuthority.generate(KeyType.P256, common_name="web")
    pair = authority.issue(common_name="w", ips=["127.0.0.1"], usages=Usage.SERVER)
    (tmp_path / "ca.pem").write_bytes(authority.pem.crt)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    tls = make_server_tls(tmp_path, pair)
    plain = site(b=(200, {}, b"text"))
    with plain.serving() as elsewhere:
        secured = site(a=(302, {"Location": f"{elsewhere}/b"}, b""), c=(302, {"Location": "/d"}, b""))
        secured.answers["/d"] = [(200, {}, b"text")]
        with secured.serving(tls) as url:
            assert fetch(f"{url}/c").data == b"text"
            with pytest.raises(FetchError, match="a redirect from https to http, which is not followed"):
                fetch(f"{url}/a")
    assert plain.requests == []


def test_a_proxy_of_the_environment_is_called_and_no_other_server() -> None:
    proxy = Site({"http://far.example:8080/a": [(200, {}, b"text")]})
    with proxy.serving() as url:
        environment = {
            "http_proxy": url.replace("//", "//me:pw@"),
            "https_proxy": url,
            "no_proxy": "127.0.0.1",
        }
        assert fetch("http://far.example:8080/a", {"X-Token": "secret"}, environment).data == b"text"
        assert proxy.tokens == ["secret"]
        assert proxy.authorizations == ["Basic bWU6cHc="]
        with pytest.raises(FetchError, match="501"):
            fetch("https://far.example/a", {}, environment)
        assert proxy.requests == ["http://far.example:8080/a"]
    with site(a=(200, {}, b"direct")).serving() as url:
        assert fetch(f"{url}/a", {}, environment).data == b"direct"
    with pytest.raises(FetchError, match="a proxy of the kind 'socks5'"):
        fetch("http://far.example/", {}, {"http_proxy": "socks5://127.0.0.1"})


def test_what_a_server_may_do_wrong() -> None:
    cases: dict[str, tuple[int, dict[str, str], bytes]] = {
        "late": (503, {}, b""),
        "cut": (200, {"Content-Length": "10"}, b"half"),
        "loop": (302, {"Location": "/loop"}, b""),
        "huge": (200, {}, b"x" * (MAX_BYTES + 1)),
    }
    with site(**cases, missing=(404, {}, b"")).serving() as url:
        for name in cases:
            with pytest.raises(FetchError) as caught:
                fetch(f"{url}/{name}")
            assert str(caught.value), name
        with pytest.raises(NotThereError):
            fetch(f"{url}/missing")
    with pytest.raises(FetchError, match="connection refused"):
        fetch(f"{url}/gone")


def test_variables_are_filled_in_and_quoted() -> None:
    url = "http://a/${mac}?u=${uuid}&h=${hostname}&u=${uuid}"
    assert find_variables(url) == ("mac", "uuid", "hostname")
    values = {"mac": "52:54:00:12:34:56", "uuid": "a-b", "hostname": "a b&c"}
    assert fill_url(url, values) == "http://a/52:54:00:12:34:56?u=a-b&h=a%20b%26c&u=a-b"
    with pytest.raises(UserError, match=r'talos\.config: there is no variable "UUID" \(use one of uuid, '):
        find_variables("http://a/${UUID}")


async def network(state: MemoryState) -> None:
    await modify(state, *ids.NETWORK_STATUS, lambda spec: setattr(spec, "address_ready", True))
    await modify(state, *ids.HOSTNAME_STATUS, lambda spec: setattr(spec, "hostname", "node"))
    await modify(state, kinds.META_KEY, "0x0b", lambda spec: setattr(spec, "value", "se cret"))
    await modify(state, kinds.META_KEY, "0x0f", lambda spec: setattr(spec, "value", "1234"))
    for name, last, is_up in (("eth0", 1, False), ("eth1", 2, True)):

        def change(spec: Any, last: int = last, is_up: bool = is_up) -> None:
            spec.type, spec.hardware_addr = 1, bytes([2, 0, 0, 0, 0, last])
            spec.operational_state = enums.OPER_STATE_UP if is_up else enums.OPER_STATE_DOWN

        await modify(state, kinds.LINK_STATUS, name, change)


async def test_a_server_is_called_until_it_answers() -> None:
    state, reported = MemoryState(), list[str]()
    path = "/c?mac=02:00:00:00:00:02&uuid=1234&h=node&code=se%20cret"
    server = Site({path: [(500, {}, b""), (200, {}, b"text")]})
    with server.serving() as url:
        source = WebSource(state=state, files=KernelFiles(), report=reported.append, inform=print)
        found = list[bytes]()

        async def load() -> None:
            template = f"{url}/c?mac=${{mac}}&uuid=${{uuid}}&h=${{hostname}}&code=${{code}}"
            found.append(await source.load(template))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(load)
            await trio.testing.wait_all_tasks_blocked()
            assert server.requests == []  # there is no network yet
            await network(state)
        assert found == [b"text"]
        assert server.requests == [path, path]
        (line,) = reported
        assert "500" in line
        assert "next try in 1 s" in line
        assert f"{url}/c?mac=02:00:00:00:00:02&uuid=1234&h=node&code=${{code}}:" in line


async def test_a_server_that_never_answers_is_given_up(autojump_clock: object) -> None:
    del autojump_clock
    state, reported = MemoryState(), list[str]()
    await network(state)

    async def refuse(*_: object) -> Any:
        await trio.lowlevel.checkpoint()
        raise FetchError("connection refused")

    source = WebSource(state=state, files=KernelFiles(), report=reported.append, inform=print, fetch=refuse)
    before = trio.current_time()
    assert await source.load("http://user:secret@192.0.2.1/c") == b""
    assert trio.current_time() - before == 3 * 3600
    assert "within 3 h" in reported[-1]
    assert len(reported) < 400
    assert "http://192.0.2.1/c" in reported[0]
    assert not any("secret" in line for line in reported)


async def test_what_can_not_be_a_url_is_named() -> None:
    state = MemoryState()
    await network(state)
    source = WebSource(state=state, files=KernelFiles(), report=lambda _: None, inform=print)
    for text in ("ftp://a/b", "metal-isoo"):
        with pytest.raises(UserError, match=text):
            await source.load(text)
