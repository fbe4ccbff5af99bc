"""HTTP towards registries, which may be hostile: every step is bounded. The calls block: use a thread.

Redirects are followed to http and https only, never from https to http, and credentials stay with the
server that they are for.
"""

import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import SHUT_RDWR, gaierror
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

from talos.images.registry.hosts import RegistryError
from talos.images.registry.tls import explain
from talos.system.net.proxies import find_server

MAX_REDIRECTS = 5
AGENT = "talos"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REASON = 200
"""Characters."""


@dataclass(slots=True, kw_only=True)
class Response:
    """A reply whose body is still to be read. ``length`` is -1 where the server does not announce it."""

    status: int
    headers: Mapping[str, str]
    url: str
    length: int
    _response: HTTPResponse
    _connection: HTTPConnection

    def read(self, size: int) -> bytes:
        """Up to so many bytes; fewer at the end only. RegistryError."""
        parts: list[bytes] = []
        try:
            while size > 0 and (part := self._response.read1(size)):
                parts.append(part)
                size -= len(part)
        except (OSError, HTTPException, ValueError) as error:
            raise RegistryError(f"the connection broke: {explain(error)}", temporary=True) from None
        return b"".join(parts)

    def read_all(self, limit: int) -> bytes:
        """The whole body; RegistryError when it is larger than the limit."""
        data = self.read(limit + 1)
        if len(data) > limit:
            raise RegistryError(f"its reply is larger than {limit} bytes")
        if 0 <= self.length != len(data):
            raise RegistryError("the connection ended before all had come", temporary=True)
        return data

    def close(self) -> None:
        """End the connection."""
        self._response.close()
        self._connection.close()


@dataclass(slots=True)
class Abort:
    """Breaks off what a thread waits for: the connection that is open at the moment."""

    connection: HTTPConnection | None = None
    requested: bool = field(default=False)

    def __call__(self) -> None:
        """Close the socket under the thread."""
        self.requested = True
        sock: Any = self.connection.sock if self.connection is not None else None
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(SHUT_RDWR)

    def check(self) -> None:
        """RegistryError when it was requested."""
        if self.requested:
            raise RegistryError("it was broken off")


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """How servers are reached: the TLS context for each host, and the variables that may name proxies.

    ``silence`` are the seconds within which a server has to send something.
    """

    context: Callable[[str], ssl.SSLContext]
    environment: Mapping[str, str]
    silence: float


def request(
    url: str,
    *,
    client: Client,
    headers: Mapping[str, str],
    abort: Abort,
    method: str = "GET",
    body: bytes | None = None,
) -> Response:
    """Send a request and follow redirects; whatever the status is then. RegistryError.

    ``Authorization`` is dropped where a redirect leaves the host.
    """
    sent = dict(headers)
    first = urlsplit(url)
    for _ in range(MAX_REDIRECTS + 1):
        response = _send(url, client, sent, abort, method, body)
        if response.status not in _REDIRECTS:
            return response
        response.close()
        target = find_target(url, response.headers.get("location", ""))
        if urlsplit(target).netloc != first.netloc:
            if body is not None and response.status != 303:
                raise RegistryError(
                    f"a redirect of a form to {urlsplit(target).netloc}, which is not followed"
                )
            sent = {name: value for name, value in sent.items() if name.lower() != "authorization"}
        if response.status == 303:
            method, body = "GET", None
        url = target
    raise RegistryError(f"more than {MAX_REDIRECTS} redirects")


def find_target(source: str, location: str) -> str:
    """Where a redirect leads; RegistryError when it is not followed."""
    try:
        target = urljoin(source, location)
        old, new = urlsplit(source), urlsplit(target)
        new.port  # noqa: B018 - it raises
    except ValueError:
        raise RegistryError("a redirect to what is no URL") from None
    if new.scheme not in ("http", "https") or not new.hostname:
        raise RegistryError(f"a redirect to {new.scheme or 'no'}:, which is not followed")
    if old.scheme == "https" and new.scheme != "https":
        raise RegistryError(f"a redirect from https to http on {new.netloc}, which is not followed")
    if new.username or new.password:
        raise RegistryError("a redirect with credentials in it, which is not followed")
    return target


def _connect(url: str, parts: SplitResult, client: Client) -> tuple[HTTPConnection, str, Mapping[str, str]]:
    """The connection for a URL, not opened yet; what to request on it; and headers for a proxy."""
    try:
        host, port = parts.hostname or "", parts.port
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        proxy = find_server(client.environment, parts)
        ends = (host, port) if proxy is None else (proxy.host, proxy.port)
        if parts.scheme != "https":
            connection = HTTPConnection(*ends, timeout=client.silence)
            if proxy is None:
                return connection, target, {}
            return connection, parts._replace(fragment="").geturl(), proxy.headers
        secured = HTTPSConnection(*ends, timeout=client.silence, context=client.context(parts.netloc))
        if proxy is not None:
            secured.set_tunnel(host, port or 443, headers=dict(proxy.headers))
    except (ValueError, HTTPException) as error:
        raise RegistryError(f"{url[:_MAX_REASON]!r} is no URL: {error}") from None
    return secured, target, {}


def _send(
    url: str,
    client: Client,
    headers: Mapping[str, str],
    abort: Abort,
    method: str,
    body: bytes | None,
) -> Response:
    connection, target, more = _connect(url, urlsplit(url), client)
    abort.connection = connection
    abort.check()
    own = {"User-Agent": AGENT, "Accept-Encoding": "identity"}
    try:
        connection.connect()
        abort.check()  # it may have been requested while there was no socket to end
        connection.request(method, target, body=body, headers={**own, **more, **headers})
        response = connection.getresponse()
    except (OSError, HTTPException, ValueError) as error:
        connection.close()
        reached = not isinstance(error, OSError)
        raise RegistryError(explain(error), temporary=_may_pass(error), reached=reached) from None
    except BaseException:
        connection.close()
        raise
    length = -1 if response.length is None else response.length
    return Response(
        status=response.status,
        headers={name.lower(): value for name, value in response.headers.items()},
        url=url,
        length=length,
        _response=response,
        _connection=connection,
    )


def _may_pass(error: Exception) -> bool:
    """Whether another attempt may succeed. Name servers have been queried several times by then."""
    return not isinstance(error, ssl.SSLError | gaierror | ValueError)


def check_status(response: Response) -> None:
    """Raise RegistryError for everything but a success, with the server's text in one short line."""
    if response.status in (200, 206):
        return
    response.close()
    temporary = response.status >= 500 or response.status in (408, 429)
    raise RegistryError(f"it replied {response.status}", status=response.status, temporary=temporary)
