"""Which certificates open the port, and what happens when the port's own change."""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import os
import ssl
import struct
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import grpc
import grpclib.client
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from talos.apid import certificates
from talos.apid.certificates import Certificates
from talos.pki.authority import Usage
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.port import listener
from talos.rpc.port.tls import RefusedError, check_client
from talos.rpc.protocol import OK, Status

from .raw_clients import (
    Raw,
    Session,
    answer,
    client_context,
    expect_refusal,
    http2_client,
    raw,
    still_serves,
    tls,
    until_refused,
    wait_until_closed,
)
from .world import RUN, VERSION, Node, Pki, call, client, node

pytestmark = pytest.mark.asyncio


def signed_without_usage(pki: Pki, usages: list[x509.ObjectIdentifier]) -> PemPair:
    """A client certificate with any extended key usage."""
    from talos.pki.keys import key_to_pem

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "os:admin")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(pki.ca.certificate.subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(pki.ca.certificate.not_valid_before_utc)
        .not_valid_after(pki.ca.certificate.not_valid_after_utc)
    )
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    certificate = builder.sign(pki.ca.key, None)  # pyright: ignore[reportArgumentType]
    from talos.pki.certificate import certificate_to_pem

    return PemPair(certificate_to_pem(certificate), key_to_pem(key))


CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


BAD_CERTIFICATES: dict[str, tuple[Callable[[Pki], PemPair | None], str]] = {
    "none": (lambda _: None, "the client sent no certificate"),
    "expired": (lambda pki: pki.expired(), "not accepted: certificate has expired"),
    "foreign": (lambda _: Pki().client("os:admin"), "the client certificate is not accepted: "),
    "self-signed": (lambda pki: pki.ca.pem, "the client certificate is not accepted: "),
    "server": (lambda pki: pki.client("os:admin", usages=Usage.SERVER), "unsuitable certificate purpose"),
    "both": (lambda pki: pki.client("os:admin", usages=Usage.BOTH), "is not exactly clientAuth"),
    "no usage": (lambda pki: signed_without_usage(pki, []), "is not exactly clientAuth"),
    "one more usage": (
        lambda pki: signed_without_usage(pki, [CLIENT, ExtendedKeyUsageOID.CODE_SIGNING]),
        "is not exactly clientAuth",
    ),
}

ALERTS = {
    "none": "CERTIFICATE_REQUIRED",
    "expired": "CERTIFICATE_EXPIRED",
    "foreign": "UNKNOWN_CA",
    "server": "UNSUPPORTED_CERTIFICATE",
}
"""What OpenSSL has for the client of a certificate above; Go's client shows it to its user."""


async def handshake(target: Node, context: ssl.SSLContext) -> None:
    async with tls(target, context):
        pass


class Resumed:
    """TLS of a resumed session: there is a certificate, and nothing was verified."""

    def __init__(self, certificate: bytes) -> None:
        self._certificate = certificate

    def get_verified_chain(self) -> list[bytes]:
        return []

    def getpeercert(self, *, binary_form: bool) -> bytes:
        assert binary_form
        return self._certificate


class TestCertificates:
    @pytest.mark.parametrize("which", sorted(BAD_CERTIFICATES.keys() - {"self-signed"}))
    async def test_bad_ones_are_refused_and_named(self, tmp_path: Path, which: str, pki: Pki) -> None:
        make, reason = BAD_CERTIFICATES[which]
        async with node(tmp_path, pki, answer) as a:
            context = client_context(pki, make(pki))
            try:
                async with tls(a, context) as (reader, _):
                    await wait_until_closed(reader)
            except (OSError, ssl.SSLError):
                pass
            (reported,) = await until_refused(a)
            assert reason in reported
            record = next(r for r in a.records if r["msg"] == "refused a connection")
            assert record["peer"].startswith("127.0.0.1:")
            assert record["level"] == "warning"
            await still_serves(a, pki)

    @pytest.mark.parametrize("which", ALERTS)
    async def test_the_client_gets_the_reason(self, tmp_path: Path, which: str, pki: Pki) -> None:
        make, _ = BAD_CERTIFICATES[which]
        async with node(tmp_path, pki, answer) as a:
            # In TLS 1.3 a client's own handshake is done before its certificate is looked at.
            with pytest.raises(ssl.SSLError, match=ALERTS[which]):
                async with tls(a, client_context(pki, make(pki))) as (reader, _):
                    await reader.read()

    @pytest.mark.parametrize("key_type", [KeyType.ED25519, KeyType.P256])
    async def test_ed25519_and_p256_clients_are_served(
        self, tmp_path: Path, key_type: KeyType, pki: Pki
    ) -> None:
        async with node(tmp_path, pki, answer) as a:
            context = client_context(pki, pki.client("os:reader", key_type=key_type))
            channel = grpclib.client.Channel(a.host, a.port, ssl=context, codec=Raw())
            try:
                method = grpclib.client.UnaryUnaryMethod(channel, VERSION, bytes, bytes)
                assert b"a" in await method(b"")
            finally:
                channel.close()

    async def test_tls_1_1_is_refused(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, answer) as a:
            # A hello of TLS 1.1, which today's OpenSSL no longer sends.
            body = b"\x03\x02" + os.urandom(32) + b"\0" + b"\0\x02\xc0\x09" + b"\x01\0"
            hello = b"\x01" + len(body).to_bytes(3) + body
            await raw(a, b"\x16\x03\x01" + struct.pack(">H", len(hello)) + hello)
            (reported,) = await until_refused(a)
            assert reported == "the client's TLS is older than 1.3"

    async def test_tls_1_2_is_refused_and_no_session_is_kept(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, answer) as a:
            context = client_context(pki, pki.client("os:admin"))
            served = a.api.certificates.context()
            assert served is not None
            for _ in range(3):
                async with tls(a, context) as (_, writer):
                    assert writer.get_extra_info("ssl_object").session_reused is False
                    assert not writer.get_extra_info("ssl_object").session.has_ticket
            old = client_context(pki, pki.client("os:admin"))
            old.maximum_version = ssl.TLSVersion.TLSv1_2
            with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
                async with tls(a, old):
                    pass
            assert await until_refused(a) == ["the client's TLS is older than 1.3"]
            assert served.session_stats()["number"] == 0

    async def test_a_chain_that_was_not_verified_is_refused(self, pki: Pki) -> None:
        certificate = ssl.PEM_cert_to_DER_cert(pki.client("os:admin").crt.decode())
        with pytest.raises(RefusedError, match="not verified"):
            check_client(Resumed(certificate), "192.0.2.1:1")  # pyright: ignore[reportArgumentType]

    async def test_without_http2_is_refused(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, answer) as a:
            await expect_refusal(a, pki, pki.client("os:admin"), alpn=("http/1.1",))
            (reported,) = await until_refused(a)
            assert "ALPN h2" in reported
            await still_serves(a, pki)


class TestChange:
    async def test_new_certificates_leave_open_streams_alone(self, tmp_path: Path, pki: Pki) -> None:
        new = pki.spec()
        new.accepted_c_as.add(crt=Pki().ca.crt)

        async def echo(call: ServerCall) -> Status:
            while (message := await call.receive()) is not None:
                await call.send(message)
            return OK

        async with (  # noqa: SIM117
            node(tmp_path, pki, echo) as a,
        ):
            async with client(a, pki, pki.client("os:admin")) as channel:
                rpc = channel.stream_stream(RUN)()
                await rpc.write(b"before")
                assert await rpc.read() == b"before"
                a.api.certificates.set(new)
                async with client(a, pki, pki.client("os:admin")) as fresh:
                    assert await call(fresh, request=b"new") == b"new"
                await rpc.write(b"after")
                assert await rpc.read() == b"after"
                # A new call on the old connection, too.
                assert await call(channel, request=b"old") == b"old"
                await rpc.done_writing()
                assert await rpc.code() is grpc.StatusCode.OK

    async def test_a_new_address_waits_for_the_certificate_that_has_it(
        self, tmp_path: Path, pki: Pki, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(certificates, "ADDRESS_TIMEOUT", 60.0)
        address, context = "127.0.0.9", client_context(pki, pki.client("os:admin"))
        has_begun, wait_for = asyncio.Event(), Certificates.wait_for

        async def watched(of: Certificates, own: str) -> None:
            has_begun.set()
            await wait_for(of, own)

        monkeypatch.setattr(Certificates, "wait_for", watched)
        async with node(tmp_path, pki, answer, host=address) as a:
            async with asyncio.TaskGroup() as tasks:
                waiting = tasks.create_task(handshake(a, context))
                await has_begun.wait()
                a.api.certificates.set(pki.spec())
                assert not waiting.done()
                a.api.certificates.set(pki.spec(address))
            assert a.refusals() == []
            await still_serves(a, pki)

    async def test_an_address_without_a_certificate_waits_once(
        self, tmp_path: Path, pki: Pki, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(certificates, "ADDRESS_TIMEOUT", 0.05)
        context = client_context(pki, pki.client("os:admin"))
        async with node(tmp_path, pki, answer, host="127.0.0.9") as a:
            with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for '127\.0\.0\.9'"):
                await handshake(a, context)
            monkeypatch.setattr(certificates, "ADDRESS_TIMEOUT", 3600.0)
            with pytest.raises(ssl.SSLCertVerificationError):
                await handshake(a, context)

    async def test_in_maintenance_no_connection_waits(
        self, tmp_path: Path, pki: Pki, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(certificates, "ADDRESS_TIMEOUT", 3600.0)
        context = client_context(pki, None)
        context.check_hostname = False
        async with node(tmp_path, pki, answer, host="127.0.0.9", maintenance=True) as a:
            await handshake(a, context)

    async def test_connections_end_with_their_ca(self, tmp_path: Path) -> None:
        old, new = Pki(), Pki()
        async with node(tmp_path, old, answer) as a, http2_client(a, old) as session:
            assert (await session.request({}))["grpc-status"] == "0"
            both = new.spec()
            both.accepted_c_as.add(crt=old.ca.crt)
            a.api.certificates.set(both)
            assert (await session.request({}))["grpc-status"] == "0"
            a.api.certificates.set(new.spec())
            await wait_until_closed(session.reader)
            assert "not accepted any more" in (await until_refused(a))[0]
            await expect_refusal(a, old, old.client("os:admin"))
            await still_serves(a, new)

    async def test_connections_end_with_their_certificate(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pki: Pki
    ) -> None:
        monkeypatch.setattr(listener, "SWEEP", 0.1)
        short = pki.client("os:admin", ttl=timedelta(seconds=3))
        async with node(tmp_path, pki, answer) as a:
            async with tls(a, client_context(pki, short)) as (reader, writer):
                session = Session(reader, writer)
                assert (await session.request({}))["grpc-status"] == "0"
                await wait_until_closed(reader)
            assert await until_refused(a) == ["the client certificate expired"]
            await still_serves(a, pki)

    async def test_unusable_certificates_are_reported_and_not_used(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, answer) as a:
            broken = pki.spec()
            broken.server.key = b"nonsense"
            a.api.certificates.set(broken)
            assert a.records[-1]["level"] == "error"
            await still_serves(a, pki)

    async def test_a_stream_through_a_peer_survives_the_change(self, tmp_path: Path, pki: Pki) -> None:

        async def echo(call: ServerCall) -> Status:
            while (message := await call.receive()) is not None:
                await call.send(message)
            return OK

        from .world import free_port

        port = free_port()
        async with (
            node(tmp_path / "a", pki, echo, port=port) as a,
            node(tmp_path / "b", pki, echo, host="127.0.0.2", port=port),
            client(a, pki, pki.client("os:admin")) as channel,
        ):
            to_b = (("node", "127.0.0.2"),)
            rpc = channel.stream_stream(RUN)(metadata=to_b)
            await rpc.write(b"1")
            assert await rpc.read() == b"1"
            a.api.certificates.set(pki.spec())
            await rpc.write(b"2")
            assert await rpc.read() == b"2"
            assert await call(channel, request=b"3", metadata={"node": "127.0.0.2"}) == b"3"
            await rpc.done_writing()
            assert await rpc.code() is grpc.StatusCode.OK
