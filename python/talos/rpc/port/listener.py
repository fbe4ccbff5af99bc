"""A TLS port: accepts connections under limits, checks certificates, says whom it refused and why.

The TLS context is asked for anew for every connection, so that certificates can change
without touching the connections that are open.
"""

import asyncio
import errno
import os
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from talos.rpc.port.connection import CallHandler, Http2Connection, RefusedError, format_address
from talos.rpc.port.flow import Budget
from talos.rpc.port.refusals import Refusals
from talos.rpc.proxy.raw import Peer
from talos.system.logging import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """What a TLS server needs. All PEM.

    Without ``client_authorities`` no client certificate is asked for.
    """

    certificate: bytes
    key: bytes
    client_authorities: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds that keep the port usable whoever knocks."""

    connections: int = 1024
    connections_per_host: int = 1024
    idle_timeout: float | None = None  # seconds without a call
    handshakes: int = 128
    handshakes_per_host: int = 32
    handshake_timeout: float = 10.0  # seconds; a handshake takes 2 to 3 round trips
    shutdown_timeout: float = 2.0


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """A server's TLS context: TLS 1.2 or newer, HTTP/2."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    context.set_alpn_protocols(["h2"])
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    # A resumed session would skip the check of the client's certificate.
    context.num_tickets = 0
    _load_certificate(context, settings)
    if settings.client_authorities:
        context.verify_mode = ssl.CERT_REQUIRED
        # As Go does: an accepted CA is an anchor even when another CA has signed it.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(
            cadata="\n".join(pem.decode("ascii") for pem in settings.client_authorities)
        )
    return context


def _load_certificate(context: ssl.SSLContext, settings: TlsSettings) -> None:
    # OpenSSL's binding only reads files; this one never touches a disk.
    fd = os.memfd_create("certificate")
    try:
        os.write(fd, settings.certificate + b"\n" + settings.key)
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def check_client(tls: ssl.SSLObject, address: str) -> Peer:
    """Who a TLS client is, from its verified certificate.

    Every certificate of its chain that is no CA's must be for clients and nothing else.
    """
    chain = tls.get_verified_chain() or [tls.getpeercert(binary_form=True) or b""]
    try:
        certificates = [x509.load_der_x509_certificate(der) for der in chain]
        for certificate in certificates:
            _check_usage(certificate)
        subject = certificates[0].subject
    except ValueError as error:
        raise RefusedError(f"the client certificate is malformed: {error}") from None
    return Peer(
        address=address,
        common_name=_first(subject, NameOID.COMMON_NAME),
        organizations=tuple(
            str(part.value)
            for part in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
            if part.value
        ),
    )


def _check_usage(certificate: x509.Certificate) -> None:
    try:
        if certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return
    except x509.ExtensionNotFound:
        pass
    try:
        usages = list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        usages = []
    if usages != [ExtendedKeyUsageOID.CLIENT_AUTH]:
        name = certificate.subject.rfc4514_string()
        raise RefusedError(
            f'the extended key usage of the client certificate "{name}" is not exactly clientAuth'
        )


def _first(subject: x509.Name, oid: x509.ObjectIdentifier) -> str:
    return next((str(part.value) for part in subject.get_attributes_for_oid(oid)), "")


class TlsListener:
    """Serves calls on a TCP port with TLS.

    ``context`` gives the TLS context of the next connection, None while there is none.
    """

    def __init__(
        self,
        handler: CallHandler,
        *,
        context: Callable[[], ssl.SSLContext | None],
        log: Log,
        limits: Limits | None = None,
    ) -> None:
        self._handler = handler
        self._context = context
        self._log = log
        self._limits = limits or Limits()
        self._refusals = Refusals(log)
        self._budget = Budget()
        self._hosts: Counter[str] = Counter()
        self._connections: set[Http2Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._handshakes: Counter[str] = Counter()
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None

    def start(self, port: int, host: str = "") -> int:
        """Listen, by default on all addresses of both families; returns the port."""
        self._listening = listening = _listen(host, port)
        self._accepting = asyncio.get_running_loop().create_task(self._accept(listening))
        return int(listening.getsockname()[1])

    async def stop(self, grace: float) -> None:
        """Take no new connections and calls, give the open ones ``grace`` seconds, end the rest."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        if self._listening is not None:
            self._listening.close()
        for connection in self._connections:
            connection.drain()
        closed = [asyncio.ensure_future(connection.closed.wait()) for connection in self._connections]
        if closed:
            _, late = await asyncio.wait(closed, timeout=grace)
            for task in late:
                task.cancel()
        for connection in list(self._connections):
            connection.abort()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def retire(self, grace: float) -> None:
        """End the connections of this moment after ``grace`` seconds.

        They are not told before: there are clients whose open calls end with the farewell.
        """
        old = set(self._connections)

        async def end() -> None:
            await asyncio.sleep(grace)
            for connection in old & self._connections:
                connection.abort()

        task = asyncio.get_running_loop().create_task(end())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connected, address = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}:
                    self._log.error("cannot accept connections", reason=error.strerror)
                    await asyncio.sleep(1)
                continue
            task = loop.create_task(self._serve(connected, address))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, connected: socket.socket, address: tuple[str, int]) -> None:
        host, who = address[0], format_address(address)
        context = self._context()
        reason = "no certificate yet" if context is None else self._check_limits(host)
        if context is None or reason is not None:
            connected.close()
            self._refusals.note(who, reason or "")
            return
        _keep_alive(connected)
        wants_certificate = context.verify_mode is ssl.CERT_REQUIRED

        def admit(transport: asyncio.Transport) -> Peer:
            tls: ssl.SSLObject = transport.get_extra_info("ssl_object")
            if tls.selected_alpn_protocol() != "h2":
                raise RefusedError("the client does not offer HTTP/2 (ALPN h2)")
            return check_client(tls, who) if wants_certificate else Peer(address=who)

        connection = Http2Connection(
            self._handler,
            admit=admit,
            budget=self._budget,
            refusals=self._refusals,
            log=self._log,
            idle_timeout=self._limits.idle_timeout,
        )
        self._connections.add(connection)
        with _counted(self._hosts, host):
            try:
                with _counted(self._handshakes, host):
                    done = await self._handshake(connection, connected, context, who)
                if done:
                    await connection.closed.wait()
            finally:
                self._connections.discard(connection)

    def _check_limits(self, host: str) -> str | None:
        limits = self._limits
        if len(self._connections) >= limits.connections:
            return f"{limits.connections} connections are open"
        if self._hosts[host] >= limits.connections_per_host:
            return f"{limits.connections_per_host} connections of this address are open"
        if self._handshakes.total() >= limits.handshakes:
            return f"{limits.handshakes} handshakes are pending"
        if self._handshakes[host] >= limits.handshakes_per_host:
            return f"{limits.handshakes_per_host} handshakes of this address are pending"
        return None

    async def _handshake(
        self, connection: Http2Connection, connected: socket.socket, context: ssl.SSLContext, who: str
    ) -> bool:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                connected,
                ssl=context,
                ssl_handshake_timeout=self._limits.handshake_timeout,
                ssl_shutdown_timeout=self._limits.shutdown_timeout,
            )
        except OSError as error:
            reason = describe(error)
            # Who connects and says nothing is a health check, and comes every few seconds.
            if reason is not None:
                self._refusals.note(who, reason)
            return False
        return True


_REASONS = {
    "HTTP_REQUEST": "plain HTTP on a TLS port",
    "HTTPS_PROXY_REQUEST": "a proxy request on a TLS port",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client sent no certificate",
    "WRONG_VERSION_NUMBER": "this is not TLS",
    "UNSUPPORTED_PROTOCOL": "the client's TLS is older than 1.2",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not know the CA of our certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept our certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client takes our certificate for expired: compare the clocks",
    "NO_SHARED_CIPHER": "no cipher in common",
    "NO_APPLICATION_PROTOCOL": "the client does not offer HTTP/2 (ALPN h2)",
}


def describe(error: OSError) -> str | None:
    """Why a handshake failed, in words; None when the client just went away."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"the client certificate is not accepted: {error.verify_message}"
        case ssl.SSLEOFError() | ConnectionResetError() | BrokenPipeError():
            return None
        case ssl.SSLError(reason=str(reason)):
            return _REASONS.get(reason, reason.lower().replace("_", " "))
        case ConnectionAbortedError() | TimeoutError():
            return "the handshake took too long"
        case _:
            return str(error)


@contextmanager
def _counted(counter: Counter[str], host: str) -> Generator[None]:
    counter[host] += 1
    try:
        yield
    finally:
        counter[host] -= 1
        if not counter[host]:
            del counter[host]


def _listen(host: str, port: int) -> socket.socket:
    # One socket for both families, unless the kernel has no IPv6.
    dual = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual or ":" in host else socket.AF_INET
    listening = socket.create_server(
        (host, port), family=family, backlog=256, reuse_port=False, dualstack_ipv6=dual
    )
    listening.setblocking(False)
    return listening


def _keep_alive(connected: socket.socket) -> None:
    """Notice clients that vanished: after 15 s of silence, 9 probes, 15 s apart, as Go does."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 9)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
