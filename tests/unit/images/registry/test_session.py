"""Registries as they are and as they should not be: redirects, stalls, lies, endless replies, tokens."""

import base64
import hashlib
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, override
from urllib.parse import urlsplit

import pytest
import trio
from tests.harness.registry import Handler, Registry, Store, running_registry
from tests.harness.tls import make_server_tls

from talos.api.common.common_pb2 import PEMEncodedCertificateAndKey
from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.api.definitions.cri_pb2 import (
    RegistriesConfigSpec,
    RegistryAuthConfig,
    RegistryEndpointConfig,
    RegistryMirrorConfig,
    RegistryTLSConfig,
)
from talos.images.reference import parse_reference
from talos.images.registry.hosts import NoSuchImageError, RegistryError, Sources
from talos.images.registry.session import PullLimits, Session, open_session
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType
from talos.system.errors import UserError
from talos.system.net.proxies import find_server

DATA = bytes(range(256)) * 4096
"""A blob of 1 MiB."""


LIMITS = PullLimits(first_retry_delay=0.01)
STRICT = PullLimits(timeout=1.5, min_rate=64 * 1024 * 1024, silence=0.3, first_retry_delay=0.01)
"""For registries that stall; on a busy machine others may be as slow."""


@pytest.fixture
def store() -> Store:
    store = Store()
    store.add_image("library/sample:1", {"file": b"x"})
    store.add(DATA, "application/octet-stream")
    return store


def make_sources(*ports: int, auth: RegistryAuthConfig | None = None) -> Sources:
    """Mirrors of docker.io on this machine, and no fallback."""
    endpoints = [RegistryEndpointConfig(endpoint_endpoint=f"http://127.0.0.1:{port}") for port in ports]
    mirror = RegistryMirrorConfig(mirror_endpoints=endpoints, mirror_skip_fallback=True)
    spec = RegistriesConfigSpec(registry_mirrors={"docker.io": mirror})
    if auth is not None:
        spec.registry_auths[f"127.0.0.1:{ports[0]}"].CopyFrom(auth)
    return Sources(registries=spec)


def begin(image: str, sources: Sources, limits: PullLimits = LIMITS) -> Session:
    """A session that tries again soon."""
    return open_session(parse_reference(image), sources, limits)


@contextmanager
def hostile(
    store: Store, behaviour: type[Handler], limits: PullLimits = LIMITS
) -> Generator[tuple[Session, Registry]]:
    with running_registry(store, behaviour) as registry:
        yield begin("sample:1", make_sources(registry.port), limits), registry


async def read_blob(session: Session, data: bytes = DATA) -> bytes:
    """A blob as a store reads it, which checks the digest."""
    blob = Descriptor(digest=f"sha256:{hashlib.sha256(data).hexdigest()}", size=len(data))

    async def keep(chunks: AsyncGenerator[bytes]) -> bytes:
        found = b"".join([chunk async for chunk in chunks])
        if hashlib.sha256(found).hexdigest() != blob.digest.partition(":")[2]:
            raise RegistryError("what it sends is not this blob")
        return found

    return await session.fetch_blob(blob, keep)


async def fail(session: Session, *, of: str = "manifest") -> str:
    """The error of a fetch: one line that names the image and the endpoint."""
    with pytest.raises(UserError) as caught:
        await (session.fetch_manifest("1") if of == "manifest" else read_blob(session))
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 600
    assert text.startswith("image docker.io/library/sample:1: ")
    assert session.endpoints[0].host in text
    return text


async def test_an_honest_one(store: Store) -> None:
    with hostile(store, Handler) as (session, registry):
        fetched = await session.fetch_manifest("1")
        assert fetched.data == store.blobs[fetched.descriptor.digest]
        assert await read_blob(session) == DATA
        assert registry.requests[0] == "GET /v2/library/sample/manifests/1?ns=docker.io"


class Overloaded(Handler):
    """Answers nothing but that it is overloaded."""

    @override
    def may_pass(self) -> bool:
        self.answer(503, b"", "text/plain")
        return False


async def test_the_next_endpoint_is_tried(store: Store) -> None:
    with running_registry(Store()) as empty, running_registry(store) as full:
        session = begin("sample:1", make_sources(empty.port, full.port))
        assert (await session.fetch_manifest("1")).data
        both = begin("other:1", make_sources(empty.port, full.port))
        with pytest.raises(NoSuchImageError) as caught:
            await both.fetch_manifest("1")
    assert str(caught.value) == (
        f"image docker.io/library/other:1: manifest 1: 127.0.0.1:{empty.port}: it replied 404; "
        f"127.0.0.1:{full.port}: it replied 404"
    )
    unreachable = begin("other:1", make_sources(1))
    with pytest.raises(UserError, match="refused") as caught:
        await unreachable.fetch_manifest("1")
    assert not isinstance(caught.value, NoSuchImageError)


async def test_a_mirror_that_is_down_costs_no_time(store: Store) -> None:
    patient = PullLimits(first_retry_delay=3600)
    with running_registry(Store(), Overloaded) as overloaded, running_registry(store) as full:
        session = begin("sample:1", make_sources(1, overloaded.port, full.port), patient)
        assert (await session.fetch_manifest("1")).data
        assert await read_blob(session) == DATA
        assert len(overloaded.requests) == 2


class Redirecting(Handler):
    """Sends everybody elsewhere."""

    target: ClassVar[str] = ""

    @override
    def may_pass(self) -> bool:
        self.answer(307, b"", "text/plain", {"Location": self.target or self.path})
        return False


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("", "more than 5 redirects"),
        ("file:///etc/shadow", "a redirect to file:, which is not followed"),
        ("gopher://127.0.0.1/", "a redirect to gopher:"),
        ("http://user:pw@127.0.0.1/", "a redirect with credentials"),
        ("http://[::1", "a redirect to what is no URL"),
        ("http://127.0.0.1:99999/", "a redirect to what is no URL"),
    ],
)
async def test_redirects(store: Store, target: str, reason: str) -> None:
    behaviour = type("Elsewhere", (Redirecting,), {"target": target})
    with hostile(store, behaviour) as (session, registry):
        assert reason in await fail(session)
        assert len(registry.requests) <= 6


class Silent(Handler):
    """Takes a request and answers nothing."""

    @override
    def may_pass(self) -> bool:
        time.sleep(2)
        return False


async def test_a_registry_that_stalls_holds_up_those_that_share_its_threads_alone(store: Store) -> None:
    with hostile(store, Silent) as (stalled, _), running_registry(store) as registry:
        few = trio.CapacityLimiter(1)
        begun = replace(stalled, threads=few)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(begun.fetch_manifest, "1")
            while not few.borrowed_tokens:
                await trio.lowlevel.checkpoint()
            assert (await begin("sample:1", make_sources(registry.port)).fetch_manifest("1")).data
            assert few.borrowed_tokens
            nursery.cancel_scope.cancel()


async def test_a_mirror_that_is_too_slow_is_tried_last_for_the_parts_that_follow(store: Store) -> None:
    with running_registry(store, Silent) as slow, running_registry(store) as full:
        session = begin("sample:1", make_sources(slow.port, full.port), STRICT)
        assert (await session.fetch_manifest("1")).data
        assert await read_blob(session) == DATA
        assert len(slow.requests) == 1


class Dripping(Handler):
    """Sends a byte from time to time."""

    @override
    def send_content(self, kind: str, digest: str, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        for byte in data[:200]:
            self.wfile.write(bytes([byte]))
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("behaviour", "of", "reason"),
    [
        (Silent, "manifest", "it did not answer in time"),
        (Dripping, "manifest", "it takes too long"),
        (Dripping, "blob", "it takes too long"),
    ],
)
async def test_stalls(store: Store, behaviour: type[Handler], of: str, reason: str) -> None:
    with hostile(store, behaviour, STRICT) as (opened, _):
        assert reason in await fail(opened, of=of)


class Lying(Handler):
    """Sends something else than was requested."""

    @override
    def send_content(self, kind: str, digest: str, data: bytes) -> None:
        self.answer(200, data[:-1] + b"!", self.store.kinds[digest])


async def test_wrong_digests(store: Store) -> None:
    with hostile(store, Lying) as (session, _):
        digest = store.tags["library/sample", "1"]
        with pytest.raises(UserError, match=f"what it gives as {digest} is sha256:"):
            await session.fetch_manifest(digest)
        assert "what it sends is not this blob" in await fail(session, of="blob")


class Endless(Handler):
    """Never ends a body."""

    @override
    def send_content(self, kind: str, digest: str, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        piece = b"10000\r\n" + bytes(65536) + b"\r\n"
        try:
            while True:
                self.wfile.write(piece)
        except OSError:
            self.close_connection = True


class Oversized(Handler):
    """Announces more than a blob has."""

    @override
    def send_content(self, kind: str, digest: str, data: bytes) -> None:
        self.answer(200, data + b"more", self.store.kinds[digest])


class Huge(Handler):
    """Has manifests of 5 MiB."""

    @override
    def send_content(self, kind: str, digest: str, data: bytes) -> None:
        self.answer(200, bytes(5 << 20), "application/json")


class ManyHeaders(Handler):
    """Has more headers than a client reads."""

    @override
    def send_content(self, kind: str, digest: str, data: bytes) -> None:
        self.answer(200, data, "text/plain", {f"X-{number}": "x" * 1000 for number in range(1000)})


@pytest.mark.parametrize(
    ("behaviour", "of", "reason"),
    [
        (Endless, "manifest", "its reply is larger than 1048576 bytes"),
        (Endless, "blob", "it sends more than the 1048576 bytes of the blob"),
        (Oversized, "blob", "it sends 1048580 bytes of a blob of 1048576"),
        (Huge, "manifest", "its reply is larger than 1048576 bytes"),
        (ManyHeaders, "manifest", "it does not speak HTTP"),
    ],
)
async def test_too_much(store: Store, behaviour: type[Handler], of: str, reason: str) -> None:
    with hostile(store, behaviour) as (session, _):
        assert reason in await fail(session, of=of)


class Breaking(Handler):
    """Breaks off the first replies."""

    left: ClassVar[int] = 2

    @override
    def send_content(self, kind: str, digest: str, data: bytes) -> None:
        if type(self).left == 0:
            super().send_content(kind, digest, data)
            return
        type(self).left -= 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2])
        self.close_connection = True


async def test_what_breaks_is_tried_again(store: Store) -> None:
    with hostile(store, type("Breaking", (Breaking,), {})) as (session, registry):
        assert await read_blob(session) == DATA
        assert len(registry.requests) == 3


class Guarded(Handler):
    """Wants a token, which it gives to those with the right password."""

    realm: ClassVar[str] = ""
    challenge: ClassVar[str] = (
        'Bearer realm="{realm}/v2/token/of/it?x=1",service="s",scope="repository:a:pull"'
    )
    reply: ClassVar[bytes] = b'{"token": "secret"}'

    @override
    def may_pass(self) -> bool:
        given = self.headers.get("Authorization", "")
        if "/token/" in self.path:
            assert self.path.endswith("?x=1&service=s&scope=repository%3Aa%3Apull")
            wanted = f"Basic {base64.b64encode(b'user:password').decode()}"
            self.answer(200 if given == wanted else 403, self.reply, "application/json")
            return False
        if given == "Bearer secret":
            return True
        challenge = self.challenge.format(realm=f"http://127.0.0.1:{self.server.server_port}")  # type: ignore[attr-defined]
        self.answer(401, b"", "text/plain", {"WWW-Authenticate": challenge})
        return False


USER = RegistryAuthConfig(registry_username="user", registry_password="password")
ENCODED = RegistryAuthConfig(registry_auth=base64.b64encode(b"user:password").decode())


@pytest.mark.parametrize("auth", [USER, ENCODED])
async def test_a_token_is_fetched_once(store: Store, auth: RegistryAuthConfig) -> None:
    with running_registry(store, Guarded) as registry:
        session = begin("sample:1", make_sources(registry.port, auth=auth))
        await session.fetch_manifest("1")
        assert await read_blob(session) == DATA
        assert sum("/token/" in request for request in registry.requests) == 1


@pytest.mark.parametrize(
    ("changes", "auth", "reason"),
    [
        ({}, None, "its server for tokens 127.0.0.1:"),
        ({"reply": b"{}"}, USER, "its server for tokens gives none"),
        ({"reply": b"[" * 60000}, USER, "its server for tokens gives none"),
        ({"reply": bytes(100_000)}, USER, "its reply is larger than 65536 bytes"),
        ({"reply": b'{"token": "a\\r\\nX: y"}'}, USER, "its server for tokens gives none"),
        ({"challenge": 'Bearer realm="file:///etc/passwd"'}, USER, "it names no server for tokens"),
        ({"challenge": "Basic realm=x"}, None, "it requires a password"),
        ({"challenge": "Basic realm=x"}, USER, "it replied 401"),
        ({"challenge": "Negotiate"}, USER, "it refuses access without saying how to get it"),
    ],
)
async def test_what_does_not_lead_in(
    store: Store, changes: dict[str, Any], auth: RegistryAuthConfig | None, reason: str
) -> None:
    with running_registry(store, type("Guarded", (Guarded,), changes)) as registry:
        session = begin("sample:1", make_sources(registry.port, auth=auth))
        text = await fail(session)
        assert reason in text
        assert "password" not in text.replace("requires a password", "")


class Thief(Handler):
    """A server that a registry redirects to, and that requires its password."""

    given: ClassVar[list[str]] = []
    challenge: ClassVar[str] = ""

    @override
    def may_pass(self) -> bool:
        if given := self.headers.get("Authorization", ""):
            self.given.append(given)
        realm = f"http://127.0.0.1:{self.server.server_port}/token"  # type: ignore[attr-defined]
        self.answer(401, b"", "text/plain", {"WWW-Authenticate": self.challenge.format(realm=realm)})
        return False


@pytest.mark.parametrize("challenge", ["Basic realm=x", 'Bearer realm="{realm}",service="s"'])
async def test_a_redirects_target_gets_no_password(store: Store, challenge: str) -> None:
    changes = {"given": list[str](), "challenge": challenge}
    thief = type("Thief", (Thief,), changes)
    with running_registry(store, thief) as other:
        target = f"http://127.0.0.1:{other.port}/v2/"
        elsewhere = type("Elsewhere", (Redirecting,), {"target": target})
        with running_registry(store, elsewhere) as registry:
            session = begin("sample:1", make_sources(registry.port, auth=USER))
            assert "it replied 401" in await fail(session)
        assert changes["given"] == []
        assert not any("/token" in request for request in other.requests)


class ServerForTokens(Redirecting):
    """Takes an identity token, and would have it sent to another server."""

    @override
    def may_pass(self) -> bool:
        if self.path.startswith("/token"):
            return super().may_pass()
        realm = f"http://127.0.0.1:{self.server.server_port}/token"  # type: ignore[attr-defined]
        self.answer(401, b"", "text/plain", {"WWW-Authenticate": f'Bearer realm="{realm}"'})
        return False

    def do_POST(self) -> None:  # noqa: N802 - its name in http.server
        self.do_GET()


async def test_a_redirects_target_gets_no_identity_token(store: Store) -> None:
    with running_registry(store) as other:
        target = f"http://127.0.0.1:{other.port}/token"
        with running_registry(store, type("Elsewhere", (ServerForTokens,), {"target": target})) as registry:
            auth = RegistryAuthConfig(registry_identity_token="secret")
            session = begin("sample:1", make_sources(registry.port, auth=auth))
            reason = f"a redirect of a form to 127.0.0.1:{other.port}, which is not followed"
            assert reason in await fail(session)
        assert other.requests == []


async def test_proxies_of_the_environment(store: Store) -> None:
    with running_registry(store) as proxy:
        environment = {
            "PATH": "/bin",
            "HTTP_PROXY": f"http://me:pw@127.0.0.1:{proxy.port}",
            "no_proxy": "direct.example",
        }
        endpoints = [RegistryEndpointConfig(endpoint_endpoint="http://far.example:5000")]
        mirror = RegistryMirrorConfig(mirror_endpoints=endpoints, mirror_skip_fallback=True)
        sources = Sources(
            registries=RegistriesConfigSpec(registry_mirrors={"docker.io": mirror}),
            environment=environment,
        )
        with pytest.raises(UserError, match=r"far\.example:5000: it replied 404"):
            await begin("sample:1", sources).fetch_manifest("none")
        assert proxy.requests == ["GET http://far.example:5000/v2/library/sample/manifests/none?ns=docker.io"]
        assert find_server(sources.environment, urlsplit("http://direct.example/")) is None
        assert find_server(sources.environment, urlsplit("https://far.example/")) is None
        found = find_server(sources.environment, urlsplit("http://far.example/"))
        assert found is not None
        assert found.headers["Proxy-Authorization"] == f"Basic {base64.b64encode(b'me:pw').decode()}"


@pytest.mark.parametrize("setting", ["socks5://127.0.0.1", "http://", "http://a:b"])
def test_proxies_that_are_none(setting: str) -> None:
    with pytest.raises(UserError, match="the environment's https_proxy: "):
        find_server({"https_proxy": setting}, urlsplit("https://far.example/"))


async def test_tls_as_it_is_configured(store: Store, tmp_path: Path) -> None:
    authority = CertificateAuthority.generate(KeyType.P256, common_name="registries")
    server = authority.issue(common_name="r", ips=["127.0.0.1"], usages=Usage.SERVER)
    client = authority.issue(common_name="node", usages=Usage.CLIENT)
    context = make_server_tls(tmp_path, server, clients=authority.pem.crt)
    with running_registry(store, tls=context) as registry:
        host = f"127.0.0.1:{registry.port}"

        def open_with(**tls: Any) -> Session:
            endpoint = RegistryEndpointConfig(endpoint_endpoint=f"https://{host}")
            mirror = RegistryMirrorConfig(mirror_endpoints=[endpoint], mirror_skip_fallback=True)
            spec = RegistriesConfigSpec(registry_mirrors={"docker.io": mirror})
            spec.registry_tl_ss[host].CopyFrom(RegistryTLSConfig(**tls))
            return begin("sample:1", Sources(registries=spec))

        pair = PEMEncodedCertificateAndKey(crt=client.crt, key=client.key)
        ca = authority.pem.crt
        assert (await open_with(tlsca=ca, tls_client_identity=pair).fetch_manifest("1")).data
        trusting = open_with(tls_insecure_skip_verify=True, tls_client_identity=pair)
        assert (await trusting.fetch_manifest("1")).data
        assert "its certificate is not accepted" in await fail(open_with(tls_client_identity=pair))
        refused = await fail(open_with(tlsca=ca))
        assert "TLS failed" in refused or "connection reset" in refused
        for wrong, where in (
            ({"tlsca": b"x"}, "ca"),
            ({"tls_client_identity": {"crt": b"x"}}, "clientIdentity"),
        ):
            with pytest.raises(UserError, match=f"TLS settings of registry {host}: {where} "):
                await open_with(**wrong).fetch_manifest("1")


async def test_credentials_stay_where_they_belong(store: Store) -> None:
    seen: list[str | None] = []

    class Storage(Handler):
        @override
        def may_pass(self) -> bool:
            seen.append(self.headers.get("Authorization"))
            return True

    with running_registry(store, Storage) as storage:

        class Sending(Guarded):
            @override
            def send_content(self, kind: str, digest: str, data: bytes) -> None:
                place = f"http://127.0.0.1:{storage.port}{self.path}"
                self.answer(307, b"", "text/plain", {"Location": place})

        with running_registry(store, Sending) as registry:
            session = begin("sample:1", make_sources(registry.port, auth=USER))
            assert await read_blob(session) == DATA
    assert seen == [None]
