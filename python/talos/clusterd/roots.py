"""The CAs that the node trusts, for connections to services outside."""

import ssl

import trio

from talos.api.rpc import Code, RpcError
from talos.rpc.port.remote import ClientTls, make_client_context

ROOTS = trio.Path("/etc/ssl/certs/ca-certificates.crt")
"""The user can add some while the node runs."""


class TrustedRoots:
    """A TLS context with the node's CAs; a hundred of them are not parsed anew for every attempt."""

    def __init__(self, file: trio.Path = ROOTS) -> None:
        self._file = file
        self._made: tuple[tuple[int, int], ssl.SSLContext] | None = None

    async def read_context(self) -> ssl.SSLContext:
        """The context of this moment. RpcError."""
        try:
            status = await self._file.stat()
            version = status.st_mtime_ns, status.st_size
            if self._made is None or self._made[0] != version:
                settings = ClientTls(authorities=(await self._file.read_bytes(),))
                self._made = version, make_client_context(settings)
        except OSError as error:  # ssl.SSLError is one
            raise RpcError(Code.UNAVAILABLE, f"{self._file}: {error}") from None
        return self._made[1]
