"""trustd's port with real TLS, and a worker that has its certificate signed there."""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import ipaddress
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import grpc
import grpc.aio
import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID
from tests.harness.limits import REAL_TIMEOUT

from talos.api.definitions import k8s_pb2 as k8s
from talos.api.definitions import secrets_pb2 as secrets
from talos.api.security.security_pb2 import CertificateRequest, CertificateResponse
from talos.machined.controllers.secrets.api_certificates import ApiCertificatesController, SigningRequest
from talos.machined.controllers.secrets.trustd_client import TrustdError, make_remote_signer
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import parse_certificate, parse_certificates
from talos.pki.csr import make_csr
from talos.pki.keys import KeyType, make_key
from talos.pki.names import organizations_of
from talos.process.run import Daemon, host
from talos.resource import ids, kinds
from talos.resource.changes import modify, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.trustd.server import TrustServer

METHOD = "/securityapi.SecurityService/Certificate"
TOKEN = "abcdef.0123456789abcdef"


class Trust:
    """A running trustd and its CA."""

    def __init__(self) -> None:
        self.ca = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"])
        self.other = CertificateAuthority.generate(KeyType.P256, organizations=["talos"])
        self.lines: list[str] = []
        self.port = 0

    @asynccontextmanager
    async def serve(
        self, *, with_root: bool = True, not_before: datetime | None = None
    ) -> AsyncGenerator[None]:
        server = TrustServer(Log(write=self.lines.append))
        pair = self.ca.issue(
            ips=["127.0.0.1"], usages=Usage.SERVER, key_encipherment=True, not_before=not_before
        )
        certificate = secrets.TrustdCertsSpec()
        certificate.server.crt, certificate.server.key = pair.crt, pair.key
        server.set_certificate(certificate)
        if with_root:
            root = secrets.OSRootSpec(token=TOKEN)
            root.issuing_ca.crt, root.issuing_ca.key = self.ca.pem.crt, self.ca.pem.key
            for ca in (self.other, self.ca):
                root.accepted_c_as.add(crt=ca.crt)
            server.set_root(root)
        self.port = server.start(0, "127.0.0.1")
        try:
            yield
        finally:
            await server.stop(0.2)

    async def call(self, csr: bytes, *, method: str = METHOD, **metadata: str) -> CertificateResponse:
        return await self.call_raw(CertificateRequest(csr=csr).SerializeToString(), method, **metadata)

    async def call_raw(self, request: bytes, method: str = METHOD, **metadata: str) -> CertificateResponse:
        credentials = grpc.ssl_channel_credentials(self.ca.crt)
        async with grpc.aio.secure_channel(f"127.0.0.1:{self.port}", credentials) as channel:
            reply = await channel.unary_unary(method)(
                request, metadata=tuple(metadata.items()), timeout=REAL_TIMEOUT
            )
        return CertificateResponse.FromString(reply)


def run(test: Callable[[Trust], Awaitable[None]], *, with_root: bool = True) -> None:
    async def limited() -> None:
        trust = Trust()
        async with asyncio.timeout(REAL_TIMEOUT), trust.serve(with_root=with_root):
            await test(trust)

    asyncio.run(limited())


def csr(**options: object) -> bytes:
    return make_csr(make_key(KeyType.P256), **options)  # pyright: ignore[reportArgumentType]


def test_signs_a_server_certificate() -> None:
    async def test(trust: Trust) -> None:
        request = csr(
            common_name="worker", organizations=["os:admin"], dns_names=["worker"], ips=["10.0.0.7"]
        )
        reply = await trust.call(request, token=TOKEN)
        assert [ca.subject for ca in parse_certificates(reply.ca)] == [
            trust.other.certificate.subject,
            trust.ca.certificate.subject,
        ]
        certificate = parse_certificate(reply.crt)
        certificate.verify_directly_issued_by(trust.ca.certificate)
        assert organizations_of(certificate.subject) == []
        assert certificate.subject.rfc4514_string() == "CN=worker"
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usages) == [ExtendedKeyUsageOID.SERVER_AUTH]
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
        assert usage.digital_signature
        assert not usage.key_encipherment
        assert not usage.key_cert_sign
        with pytest.raises(x509.ExtensionNotFound):
            certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["worker"]
        assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("10.0.0.7")]
        life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        assert life.total_seconds() == 24 * 3600
        assert any("signed a certificate" in line for line in trust.lines)

    run(test)


@pytest.mark.parametrize(
    ("metadata", "text"),
    [({}, "missing token"), ({"token": "wrong"}, "invalid token"), ({"token": ""}, "invalid token")],
)
def test_a_call_needs_the_token(metadata: dict[str, str], text: str) -> None:
    async def test(trust: Trust) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await trust.call(csr(), **metadata)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert caught.value.details() == text
        assert any(text in line for line in trust.lines)

    run(test)


def test_weak_keys_are_not_signed() -> None:
    key = rsa.generate_private_key(65537, 1024)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "worker")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())

    async def test(trust: Trust) -> None:
        with pytest.raises(grpc.aio.AioRpcError, match="1024 bits") as caught:
            await trust.call(request.public_bytes(serialization.Encoding.PEM), token=TOKEN)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    run(test)


@pytest.mark.parametrize("request_", [b"", b"nonsense", CertificateRequest(csr=b"x").SerializeToString()])
def test_bad_requests(request_: bytes) -> None:
    async def test(trust: Trust) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await trust.call_raw(request_, token=TOKEN)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    run(test)


def test_other_methods_and_services() -> None:
    async def test(trust: Trust) -> None:
        for method in ("/securityapi.SecurityService/Other", "/machine.MachineService/Version", "/x"):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await trust.call(csr(), method=method, token=TOKEN)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED

    run(test)


def test_without_secrets() -> None:
    async def test(trust: Trust) -> None:
        with pytest.raises(grpc.aio.AioRpcError, match="no secrets yet") as caught:
            await trust.call(csr(), token=TOKEN)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE

    run(test, with_root=False)


def as_daemon(
    test: Callable[[Daemon, Trust], Awaitable[None]], *, not_before: datetime | None = None
) -> None:
    """Run a trio test in a daemon beside a trustd."""

    async def main() -> None:
        trust = Trust()
        async with asyncio.timeout(REAL_TIMEOUT), trust.serve(not_before=not_before):

            async def guest(daemon: Daemon) -> None:
                await test(daemon, trust)

            await host(guest, "test", Log(write=trust.lines.append))

    asyncio.run(main())


def signing_request(trust: Trust, *endpoints: str, token: str = TOKEN) -> SigningRequest:
    return SigningRequest(endpoints=endpoints, authorities=(trust.ca.crt,), token=token, csr=csr())


def test_a_worker_finds_the_node_that_answers() -> None:
    async def test(daemon: Daemon, trust: Trust) -> None:
        sign = make_remote_signer(daemon.bridge, port=trust.port)
        signed = await sign(signing_request(trust, "127.0.0.9", "127.0.0.1"))
        parse_certificate(signed).verify_directly_issued_by(trust.ca.certificate)

    as_daemon(test)


def test_a_worker_accepts_the_authorities_of_its_config_only() -> None:
    """Trustd's answer names another one, too: a false trustd would choose the node's administrators."""

    async def test(daemon: Daemon, trust: Trust) -> None:
        state = MemoryState()

        def make_root(spec: secrets.OSRootSpec) -> None:
            spec.token = TOKEN
            spec.accepted_c_as.add(crt=trust.ca.crt)

        def make_names(spec: secrets.CertSANSpec) -> None:
            spec.fqdn = "worker"
            spec.dns_names.append("worker")

        def make_endpoint(spec: k8s.EndpointSpec) -> None:
            spec.hosts.append("127.0.0.1")

        await modify(state, *ids.OS_ROOT_SECRET, make_root)
        await modify(state, *ids.CERT_SAN_API, make_names)
        await modify(state, kinds.ENDPOINT, "discovery", make_endpoint)
        controller = ApiCertificatesController(make_remote_signer(daemon.bridge, port=trust.port))
        async with trio.open_nursery() as nursery:
            await nursery.start(run_controllers, state, [controller])
            published = await wait_for(state, *ids.API_CERTIFICATE, lambda _: True)
            nursery.cancel_scope.cancel()
        assert [ca.crt for ca in published.spec.accepted_c_as] == [trust.ca.crt]

    as_daemon(test)


def test_a_worker_gives_up_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("talos.machined.controllers.secrets.trustd_client.TOTAL_TIMEOUT", 0.5)

    async def test(daemon: Daemon, trust: Trust) -> None:
        sign = make_remote_signer(daemon.bridge, port=trust.port)
        with pytest.raises(TrustdError, match=r"127\.0\.0\.1: UNAUTHENTICATED: invalid token"):
            await sign(signing_request(trust, "127.0.0.1", token="wrong"))

    as_daemon(test)


def test_guessing_the_token_is_slow() -> None:
    async def test(trust: Trust) -> None:
        codes: list[grpc.StatusCode] = []
        for number in range(12):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await trust.call(csr(), token=f"{number}")
            codes.append(caught.value.code())
        assert codes[:5] == [grpc.StatusCode.UNAUTHENTICATED] * 5
        assert grpc.StatusCode.RESOURCE_EXHAUSTED in codes
        # Not even the right one is compared then.
        with pytest.raises(grpc.aio.AioRpcError, match="too many requests"):
            await trust.call(csr(), token=TOKEN)

    run(test)


def hostile_requests() -> list[tuple[bytes, grpc.StatusCode]]:
    """Requests with what a certificate must not get, and how they are answered."""
    key = make_key(KeyType.P256)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "worker")])

    def build(*extensions: x509.ExtensionType) -> bytes:
        builder = x509.CertificateSigningRequestBuilder().subject_name(name)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=True)
        return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=True,
        key_encipherment=True,
        data_encipherment=True,
        key_agreement=True,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    authority = build(
        x509.BasicConstraints(ca=True, path_length=None),
        usage,
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE]),
        x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"odd"),
        x509.SubjectAlternativeName([x509.DNSName("worker"), x509.UniformResourceIdentifier("spiffe://x")]),
    )
    good = csr(common_name="worker")
    other_key = csr(common_name="other")
    middle = len(good) // 2
    return [
        (authority, grpc.StatusCode.OK),
        (good[:middle], grpc.StatusCode.INVALID_ARGUMENT),
        (good[:middle] + other_key[middle:], grpc.StatusCode.INVALID_ARGUMENT),
        (good + b"A" * 100_000, grpc.StatusCode.INVALID_ARGUMENT),
        (b"A" * (1 << 20), grpc.StatusCode.RESOURCE_EXHAUSTED),
    ]


@pytest.mark.parametrize("number", range(5))
def test_a_request_gets_no_more_than_a_server_s_certificate(number: int) -> None:
    request, expected = hostile_requests()[number]

    async def test(trust: Trust) -> None:
        if expected is not grpc.StatusCode.OK:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await trust.call(request, token=TOKEN)
            assert caught.value.code() is expected
            return
        certificate = parse_certificate((await trust.call(request, token=TOKEN)).crt)
        found = {extension.oid for extension in certificate.extensions}
        assert found == {
            ExtensionOID.KEY_USAGE,
            ExtensionOID.EXTENDED_KEY_USAGE,
            ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
            ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
        }
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usages) == [ExtendedKeyUsageOID.SERVER_AUTH]
        assert not certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign

    run(test)


@pytest.mark.parametrize(
    ("begin", "text"),
    [
        (timedelta(hours=2), "not valid yet: compare its clock"),
        (timedelta(days=-2), "expired: compare its clock"),
    ],
)
def test_a_skewed_clock_is_named(begin: timedelta, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("talos.machined.controllers.secrets.trustd_client.TOTAL_TIMEOUT", 0.5)

    async def test(daemon: Daemon, trust: Trust) -> None:
        sign = make_remote_signer(daemon.bridge, port=trust.port)
        with pytest.raises(TrustdError, match=text):
            await sign(signing_request(trust, "127.0.0.1"))

    as_daemon(test, not_before=datetime.now(UTC) + begin)


def test_another_cluster_s_control_plane_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("talos.machined.controllers.secrets.trustd_client.TOTAL_TIMEOUT", 0.5)

    async def test(daemon: Daemon, trust: Trust) -> None:
        sign = make_remote_signer(daemon.bridge, port=trust.port)
        request = signing_request(trust, "127.0.0.1")
        with pytest.raises(TrustdError, match="not signed by a CA of this node's config"):
            await sign(replace(request, authorities=(trust.other.crt,)))

    as_daemon(test)
