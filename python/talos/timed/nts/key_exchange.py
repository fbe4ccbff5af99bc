"""NTS key establishment (RFC 8915, section 4): by TLS 1.3, keys and cookies for authenticated NTP.

Python's ssl can't export keying material, so the TLS is pyOpenSSL's. The server's certificate is verified by
cryptography, which takes the moment of verification as an argument.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import trio
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from OpenSSL import SSL

from talos.api.rpc import Code, RpcError
from talos.timed.nts.records import REQUEST, Granted, parse_reply
from talos.timed.nts.siv import KEY

PORT = 4460
PROTOCOL = b"ntske/1"
EXCHANGE_TIMEOUT = 5.0
"""Seconds for the whole exchange."""
MAX_REPLY = 16_384
"""Bytes of a reply; eight cookies take 1000."""
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_LABEL = b"EXPORTER-network-time-security"
_CONTEXT = b"\x00\x00\x00\x0f"
"""NTPv4, AEAD_AES_SIV_CMAC_256; the direction follows."""
_CHUNK = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The result: one key for each direction, and what the server granted."""

    to_server: bytes
    to_client: bytes
    granted: Granted


type Moment = Callable[[x509.Certificate], datetime]


def make_moment(now: Callable[[], float], is_clock_right: Callable[[], bool]) -> Moment:
    """The moment for which a certificate is verified: now, or within its period while the clock may be wrong.

    Without that a machine whose clock was lost could never get the time. What remains is that a server
    whose key leaked once can give such a machine the time of its old certificate.
    """

    def moment(certificate: x509.Certificate) -> datetime:
        time = datetime.fromtimestamp(now(), UTC)
        if is_clock_right():
            return time
        return min(max(time, certificate.not_valid_before_utc), certificate.not_valid_after_utc)

    return moment


async def exchange_keys(
    server: str, moment: Moment, *, port: int = PORT, authorities: Path = AUTHORITIES
) -> Keys:
    """Request keys and cookies from a server. RpcError with the reason when it grants none."""
    try:
        with trio.fail_after(EXCHANGE_TIMEOUT):
            stream = await trio.open_tcp_stream(server, port)
            async with stream:
                return await _Exchange(server, stream, moment, authorities).run()
    except trio.TooSlowError:
        message = f"{server} did not finish the key exchange of NTS within {EXCHANGE_TIMEOUT:g} s"
        raise RpcError(Code.UNAVAILABLE, message) from None
    except (OSError, trio.BrokenResourceError) as error:
        raise RpcError(Code.UNAVAILABLE, f"{server}, port {port} for NTS: {error}") from None
    except SSL.Error as error:
        raise RpcError(Code.UNAVAILABLE, f"{server}: TLS of NTS fails: {_describe(error)}") from None
    except VerificationError as error:
        message = f"{server}: its certificate for NTS is not trusted: {error}"
        raise RpcError(Code.UNAVAILABLE, message) from None
    except ValueError as error:
        raise RpcError(Code.UNAVAILABLE, f"{server}: key exchange of NTS: {error}") from None


class _Exchange:
    """One TLS connection, moved by hand between OpenSSL's buffers and the stream."""

    def __init__(self, server: str, stream: trio.SocketStream, moment: Moment, authorities: Path) -> None:
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        context.set_min_proto_version(SSL.TLS1_3_VERSION)
        context.set_alpn_protos([PROTOCOL])
        # The certificate is verified after the handshake, before anything is sent.
        context.set_verify(SSL.VERIFY_NONE)
        self._tls = SSL.Connection(context, None)
        self._tls.set_tlsext_host_name(server.encode("ascii"))
        self._tls.set_connect_state()
        self._server = server
        self._stream = stream
        self._moment = moment
        self._authorities = authorities

    async def run(self) -> Keys:
        await self._do(self._tls.do_handshake)
        if self._tls.get_alpn_proto_negotiated() != PROTOCOL:
            raise ValueError("it does not speak ntske/1")
        self._verify()
        await self._do(lambda: self._tls.sendall(REQUEST))
        reply = b""
        while (granted := parse_reply(reply)) is None:
            reply += await self._do(lambda: self._tls.recv(_CHUNK))
            if len(reply) > MAX_REPLY:
                raise ValueError(f"the reply is longer than {MAX_REPLY} bytes")
        return Keys(
            to_server=self._tls.export_keying_material(_LABEL, KEY, _CONTEXT + b"\0"),
            to_client=self._tls.export_keying_material(_LABEL, KEY, _CONTEXT + b"\1"),
            granted=granted,
        )

    async def _do[T](self, step: Callable[[], T]) -> T:
        """Repeat a step of OpenSSL with what arrives until it is done."""
        while True:
            try:
                result = step()
            except SSL.WantReadError:
                await self._flush()
                data = await self._stream.receive_some(_CHUNK)
                if not data:
                    raise ValueError("it ended the connection") from None
                self._tls.bio_write(data)
            else:
                await self._flush()
                return result

    async def _flush(self) -> None:
        try:
            while True:
                await self._stream.send_all(self._tls.bio_read(_CHUNK))
        except SSL.WantReadError:
            pass  # nothing is left to send

    def _verify(self) -> None:
        chain = self._tls.get_peer_cert_chain(as_cryptography=True)
        if not chain:
            raise ValueError("it shows no certificate")
        authorities = x509.load_pem_x509_certificates(self._authorities.read_bytes())
        policy = PolicyBuilder().store(Store(authorities)).time(self._moment(chain[0]).replace(tzinfo=None))
        policy.build_server_verifier(x509.DNSName(self._server)).verify(chain[0], chain[1:])


def _describe(error: SSL.Error) -> str:
    """OpenSSL's reason of the first error in its queue."""
    queue = error.args[0] if error.args else ()
    return str(queue[0][2]) if queue else "the connection ended"
