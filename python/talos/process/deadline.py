"""HTTP connections on which nothing is waited for beyond one time, however slowly a server sends its reply.

A socket's own timeout begins anew with every byte; this one holds for all that an opener does: names that
are resolved, redirects, the replies of proxies, heads and bodies.
"""

import http.client
import io
import ssl
import time
from collections.abc import Callable, Sequence
from functools import partial
from socket import SocketIO, create_connection, socket
from typing import Any, override
from urllib.request import BaseHandler, HTTPHandler, HTTPSHandler, Request

from talos.process.name_resolution import Place, resolve_host


class LateError(TimeoutError):
    """The time is over."""


class Deadline:
    """So many seconds from now."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def bound(self, seconds: float | None) -> float:
        """What is left of it, at most so many seconds. LateError."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise LateError(f"not complete after {self._seconds:.0f} s")
        return left if seconds is None else min(seconds, left)


class _Reader(io.RawIOBase):
    """What a socket receives."""

    def __init__(self, raw: SocketIO, sock: socket, deadline: Deadline) -> None:
        super().__init__()
        self._raw, self._socket, self._deadline = raw, sock, deadline
        self._silence = sock.gettimeout()

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any, /) -> int | None:
        self._socket.settimeout(self._deadline.bound(self._silence))
        try:
            return self._raw.readinto(buffer)
        except TimeoutError:
            self._deadline.bound(None)
            raise

    @override
    def close(self) -> None:
        self._raw.close()
        super().close()


def _make_response_class(deadline: Deadline) -> type[http.client.HTTPResponse]:
    class Response(http.client.HTTPResponse):
        def __init__(self, sock: socket, *arguments: Any, **options: Any) -> None:
            super().__init__(sock, *arguments, **options)
            self.fp: Any = io.BufferedReader(_Reader(self.fp.detach(), sock, deadline))

    return Response


def _connect(deadline: Deadline, place: Place, silence: float | None, source: Place | None) -> socket:
    """Connect to the first address of a host that accepts. OSError, UnicodeError."""
    failure = OSError("the name has no address")
    for address in _resolve(deadline, place):
        timeout = deadline.bound(silence)
        try:
            return create_connection(address, timeout, source)
        except OSError as error:
            failure = error
    raise failure


def _resolve(deadline: Deadline, place: Place) -> Sequence[Place]:
    try:
        return resolve_host(*place, deadline.bound(None))
    except TimeoutError:
        deadline.bound(None)
        raise


def make_handlers(
    deadline: Deadline, context: ssl.SSLContext, find_source: Callable[[], Place | None]
) -> Sequence[BaseHandler]:
    """The parts of an opener that connect; ``find_source`` has the address and port of each call by http."""
    response_class = _make_response_class(deadline)

    class Plain(http.client.HTTPConnection):
        @override
        def connect(self) -> None:
            self.response_class = response_class
            self._create_connection = partial(_connect, deadline)
            super().connect()

    class Secured(Plain, http.client.HTTPSConnection):
        pass

    class Http(HTTPHandler):
        @override
        def http_open(self, req: Request) -> http.client.HTTPResponse:
            return self.do_open(Plain, req, source_address=find_source())

    class Https(HTTPSHandler):
        @override
        def https_open(self, req: Request) -> http.client.HTTPResponse:
            return self.do_open(Secured, req, context=context)

    return Http(), Https()
