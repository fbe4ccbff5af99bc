"""Fetching over http and https. The calls block: use a thread."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from talos.system.errors import UserError
from talos.system.net.proxies import find_server

if TYPE_CHECKING:
    from urllib.request import BaseHandler, OpenerDirector

MAX_BYTES = 8 * 1024 * 1024
"""Bytes that are taken at most."""
MAX_FORM_REPLY = 64 * 1024
"""Bytes of a reply to a form; what follows is not read."""
ATTEMPT_TIMEOUT = 180.0
"""Seconds that one attempt may take (as upstream)."""
SILENCE_TIMEOUT = 30.0
"""Seconds within which a server has to send something."""
AGENT = "talos"
LOW_PORTS = range(600, 1024)
"""Those that programs of root take by themselves (bindresvport(3)); below are those of services."""


class FetchError(Exception):
    """A fetch failed; another attempt may succeed."""


class RefusedError(FetchError):
    """The server replied 401 or 403: what was shown to it is no reason, or no longer one."""


class NotThereError(Exception):
    """The server has nothing at this place: there is no config for this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The body and the final URL."""

    data: bytes
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchBounds:
    """What one fetch may take; times are in seconds."""

    max_bytes: int = MAX_BYTES
    timeout: float = ATTEMPT_TIMEOUT
    silence: float = SILENCE_TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent to a server. The ``environment`` may name a proxy."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    method: str = "GET"
    body: bytes | None = None
    low_port: bool = False
    """From a port that only root can have, where the URL is of http."""


def fetch(
    url: str,
    headers: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    bounds: FetchBounds = FetchBounds(),
    authorities: str = "",
) -> Fetched:
    """Get a file, as :func:`send` does."""
    request = Request(url=url, headers=headers or {}, environment=environment or {})
    return send(request, bounds=bounds, authorities=authorities)


def send(request: Request, *, bounds: FetchBounds = FetchBounds(), authorities: str = "") -> Fetched:
    """Send a request, following redirects to http and https only; another host gets no headers of it.

    What is requested by https does not come by http: who stands in the path would choose it.
    Certificates are verified by ``authorities`` (PEM), or the system's.

    FetchError: for everything that may go better next time.
    RefusedError: when the server replies 401 or 403.
    NotThereError: when the server replies 404 or 410.
    """
    data = bytearray()
    final = _get(request, bounds, authorities, data.extend)
    return Fetched(data=bytes(data), url=final)


def download(url: str, path: Path, *, bounds: FetchBounds) -> None:
    """Write a file of a server to a path, piece by piece; raises as :func:`fetch`, and OSError."""
    with path.open("wb") as file:
        _get(Request(url=url), bounds, "", file.write)


def post_form(
    url: str, fields: Mapping[str, str], environment: Mapping[str, str], *, authorities: str = ""
) -> tuple[int, bytes]:
    """Send a form, following no redirect: the status, and the body, which an error has, too. FetchError."""
    import urllib.error
    import urllib.parse
    import urllib.request

    data = urllib.parse.urlencode(fields).encode()
    headers = {"User-Agent": AGENT, "Accept": "application/json"}
    with _failures():
        request = urllib.request.Request(url, data=data, headers=headers)  # noqa: S310 - the opener has no others
        try:
            opener = make_opener(make_proxies(environment), authorities=authorities, timeout=ATTEMPT_TIMEOUT)
            answer = opener.open(request, timeout=SILENCE_TIMEOUT)
        except urllib.error.HTTPError as error:
            answer = error
        if answer is None:
            raise FetchError("only http and https are supported")
        with answer:
            body: bytes = answer.read(MAX_FORM_REPLY)
            return answer.status or 0, body


@contextmanager
def _failures() -> Generator[None]:
    """FetchError, or one of its kind, instead of what urllib raises."""
    # Takes a second to import on an emulated machine, and most never need it.
    import http.client
    import urllib.error

    try:
        yield
    except urllib.error.HTTPError as error:
        with error:
            reason = f"the server replied {error.code} {error.reason}".splitlines()[0]
            if error.code in {404, 410}:
                raise NotThereError(reason) from None
            raise (RefusedError if error.code in {401, 403} else FetchError)(reason) from None
    except urllib.error.URLError as error:
        raise FetchError(_explain(error.reason)) from None
    except (OSError, http.client.HTTPException) as error:
        raise FetchError(_explain(error)) from None
    except ValueError as error:
        raise FetchError(f"this is no URL: {error}") from None


def make_opener(
    *handlers: "BaseHandler", timeout: float, authorities: str = "", low_port: bool = False
) -> "OpenerDirector":
    """What opens http and https, no file:, ftp: or data:; redirects only with a handler for them. FetchError.

    All that it does ends ``timeout`` seconds from now, reading a body, too: TimeoutError. ``authorities``
    (PEM) verify servers' certificates instead of the system's. With ``low_port`` it connects for http from a
    port that only root can have.
    """
    import ssl
    import urllib.request

    from talos.process.deadline import Deadline, make_handlers

    try:
        context = ssl.create_default_context(cadata=authorities or None)
    except (ssl.SSLError, ValueError) as error:
        raise FetchError(f"its authorities can't be used: {error}") from None
    find_source = _find_low_port if low_port else lambda: None
    opener = urllib.request.OpenerDirector()
    for handler in (
        *make_handlers(Deadline(timeout), context, find_source),
        *handlers,
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
    ):
        opener.add_handler(handler)
    return opener


def make_proxies(environment: Mapping[str, str]) -> "BaseHandler":
    """The part of an opener that sends requests by the environment's proxies. FetchError, when opened."""
    import urllib.request

    class Proxies(urllib.request.BaseHandler):
        handler_order = 100  # before the header Host is made

        def http_request(self, request: urllib.request.Request) -> urllib.request.Request:
            try:
                proxy = find_server(environment, urlsplit(request.full_url))
            except UserError as error:
                raise FetchError(str(error)) from None
            if proxy is not None:
                host = f"[{proxy.host}]" if ":" in proxy.host else proxy.host
                request.set_proxy(f"{host}:{proxy.port}", "http")
                for name, value in proxy.headers.items():
                    request.add_unredirected_header(name, value)
            return request

        https_request = http_request

    return Proxies()


def _find_low_port() -> tuple[str, int]:
    import secrets

    return "", LOW_PORTS[secrets.randbelow(len(LOW_PORTS))]


def _get(
    wanted: Request,
    bounds: FetchBounds,
    authorities: str,
    take: Callable[[bytes], object],
) -> str:
    """Hand the body to ``take``, in pieces; the final URL."""
    import urllib.request

    names = {name.lower() for name in wanted.headers}

    class Redirects(urllib.request.HTTPRedirectHandler):
        def redirect_request(
            self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
        ) -> urllib.request.Request | None:
            _check_redirect(req.full_url, newurl)
            request = super().redirect_request(req, fp, code, msg, headers, newurl)
            if request is not None and urlsplit(newurl)[:2] != urlsplit(wanted.url)[:2]:
                for name in [name for name in request.headers if name.lower() in names]:
                    request.remove_header(name)
            return request

    size = 0
    with _failures():
        opener = make_opener(
            Redirects(),
            make_proxies(wanted.environment),
            timeout=bounds.timeout,
            authorities=authorities,
            low_port=wanted.low_port,
        )
        request = urllib.request.Request(  # noqa: S310 - the opener has no others
            wanted.url, wanted.body, {"User-Agent": AGENT, **wanted.headers}, method=wanted.method
        )
        answer = opener.open(request, timeout=bounds.silence)
        if answer is None:
            raise FetchError("only http and https are supported")
        with answer:
            while piece := answer.read1(64 * 1024):
                size += len(piece)
                if size > bounds.max_bytes:
                    raise FetchError(f"more than {bounds.max_bytes} bytes came")
                take(piece)
            if answer.length:
                raise FetchError("the connection ended before all had come")
            return answer.geturl()


def _check_redirect(source: str, target: str) -> None:
    scheme = urlsplit(target).scheme
    if urlsplit(source).scheme == "https" != scheme:
        raise FetchError(f"a redirect from https to {scheme}, which is not followed")


def _explain(reason: object) -> str:
    import ssl

    from talos.process.deadline import LateError

    match reason:
        case LateError():
            return str(reason)
        case ssl.SSLCertVerificationError():
            return f"the server's certificate is not accepted: {reason.verify_message}"
        case TimeoutError():
            return "the server did not answer in time"
        case OSError() if reason.strerror:
            return reason.strerror.lower()
        case _:
            return str(reason) or type(reason).__name__
