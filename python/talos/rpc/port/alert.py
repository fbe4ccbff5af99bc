"""TLS that shows a client why its handshake fails.

asyncio closes the connection and drops the alert that OpenSSL has for the client, which then
can't distinguish a certificate that is not accepted from a node that is going down.
"""

# The type stubs have few of the methods that asyncio's TLS consists of, and whole seconds only.
# pyright: reportAttributeAccessIssue=false, reportUnknownMemberType=false
# pyright: reportGeneralTypeIssues=false, reportOptionalMemberAccess=false

import asyncio
import asyncio.sslproto
import ssl
from contextlib import suppress
from typing import override

from talos.rpc.port.limits import Limits

ALERT_TIMEOUT = 1.0
"""Seconds that a client has to close the connection after an alert."""


class AlertingProtocol(asyncio.sslproto.SSLProtocol):
    """A server's TLS for one connection.

    ``waiter`` is done when the handshake is, ``gone`` is set when the connection has ended.
    """

    def __init__(
        self,
        protocol: asyncio.BufferedProtocol,
        *,
        context: ssl.SSLContext,
        waiter: asyncio.Future[None],
        limits: Limits,
    ) -> None:
        super().__init__(
            waiter.get_loop(),
            protocol,
            context,
            waiter,
            server_side=True,
            ssl_handshake_timeout=limits.handshake_timeout,  # pyright: ignore[reportArgumentType]
            ssl_shutdown_timeout=limits.shutdown_timeout,
        )
        self.gone = asyncio.Event()
        self._failure: ssl.SSLError | None = None

    @override
    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.gone.set()

    @override
    def _on_handshake_complete(self, handshake_exc: BaseException | None) -> None:
        if self._failure is None and isinstance(handshake_exc, ssl.SSLError):
            self._failure = handshake_exc
            self._process_outgoing()
            # To close it now would be a reset, which overtakes the alert, if the client has sent more.
            with suppress(OSError):
                self._transport.write_eof()
            self._wakeup_waiter(handshake_exc)
            self._loop.call_later(ALERT_TIMEOUT, self._on_handshake_complete, handshake_exc)
        else:
            super()._on_handshake_complete(self._failure or handshake_exc)

    @override
    def _do_handshake(self) -> None:
        if self._failure is None:
            super()._do_handshake()
        else:
            self._incoming.read()
