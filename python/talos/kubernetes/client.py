"""A small client of the Kubernetes API: JSON over HTTP/1.1, one connection for each call.

The maintained client for Python takes 60 MB of memory for what is four kinds of request here. Calls block,
so they run in threads, trio's on a node and asyncio's in talosctl; every one has a timeout and a bound on
what it reads. While an API server stops, requests are repeated by the rules of client-go
(rest/with_retry.go): any request that is refused with Retry-After, and a GET whose connection ends without
an answer.
"""

import asyncio
import http.client
import json
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, cast, override
from urllib.parse import quote, urlsplit

from talos.kubernetes.access import ClusterAccess, make_context

TIMEOUT = 15.0  # seconds
MAX_REPEATS = 3
"""Repeats of one request; they reach another API server, if there is one."""
MAX_RETRY_DELAY = 5.0
"""Seconds before a repeat at most, whatever Retry-After demands."""
MAX_REPLY = 16 << 20
"""Bytes of an answer; a longer one is an error. Parsed it takes several times as much memory."""
MAX_PAGE = 4 << 20
"""Bytes of a part of a list. One object has 1.5 MiB at most, as etcd has it by default."""
OBJECTS_PER_PAGE = 100
"""Objects of a part, unless they are so large that fewer are requested."""
JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"

_ENDED = (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)
"""How a connection ends when its API server stops before it answers."""

type Reply = dict[str, Any]
type InThread = Callable[[Callable[[], Reply]], Awaitable[Reply]]
"""Calls a function in a thread: trio's or asyncio's."""


class KubernetesError(Exception):
    """The API refused a request, or could not be reached. ``status`` is 0 without an answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TooLongError(KubernetesError):
    """The answer has more bytes than its caller takes."""


class _Connection(http.client.HTTPSConnection):
    """One whose server's certificate is for a name of its own."""

    def __init__(self, host: str, port: int, seconds: float, context: ssl.SSLContext, name: str) -> None:
        super().__init__(host, port, timeout=seconds, context=context)
        self._own_context, self._name = context, name

    @override
    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._own_context.wrap_socket(self.sock, server_hostname=self._name)


class KubernetesClient:
    """Calls of the API with one identity."""

    def __init__(self, access: ClusterAccess, in_thread: InThread = asyncio.to_thread) -> None:
        self._in_thread, self._access = in_thread, access
        url = urlsplit(access.server)
        self._host, self._port = url.hostname or "", url.port or 443
        self._context = make_context(access)
        self._resources: dict[str, list[dict[str, Any]]] = {}

    def at(self, server: str) -> "KubernetesClient":
        """A client with the same identity at another URL."""
        return KubernetesClient(replace(self._access, server=server), self._in_thread)

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        kind: str = JSON,
        max_reply: int = MAX_REPLY,
    ) -> Reply:
        """One request; KubernetesError when it is refused, not answered, or the answer is no JSON object."""
        return await self._in_thread(
            partial(self.call_now, method, path, body, kind=kind, max_reply=max_reply)
        )

    async def pages(self, path: str) -> AsyncGenerator[Reply]:
        """A list in parts, which no number and size of objects makes longer than is taken; KubernetesError.

        https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
        """
        limit, token, mark = OBJECTS_PER_PAGE, "", "&" if "?" in path else "?"
        while True:
            part = f"{path}{mark}limit={limit}{f'&continue={quote(token)}' if token else ''}"
            try:
                page = await self.call("GET", part, max_reply=MAX_PAGE)
            except TooLongError:
                if limit == 1:
                    raise
                limit = max(limit // 8, 1)
                continue
            if not isinstance(page.get("items"), list):
                raise KubernetesError(0, f"{path}: the answer is no list")
            yield page
            token = str(page.get("metadata", {}).get("continue") or "")
            if not token:
                return

    async def list_all(self, path: str) -> Sequence[Any]:
        """All objects of a collection; KubernetesError."""
        return [item async for page in self.pages(path) for item in page["items"]]

    async def is_ready(self) -> bool:
        """Whether the API answers, and all that it needs to be of use is there."""
        try:
            await self.read_text("/readyz")
        except KubernetesError:
            return False
        return True

    async def get_or_none(self, path: str) -> Reply | None:
        """One object; none when there is none."""
        try:
            return await self.call("GET", path)
        except KubernetesError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def find_collection(self, manifest: Mapping[str, Any]) -> str:
        """The path of the collection that an object belongs to, by the API's list of kinds."""
        version, kind = str(manifest["apiVersion"]), str(manifest["kind"])
        prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if not any(found["kind"] == kind for found in self._resources.get(prefix, ())):
            reply = await self.get_or_none(prefix)
            self._resources[prefix] = reply["resources"] if reply is not None else []
        for found in self._resources[prefix]:
            if found["kind"] == kind and "/" not in found["name"]:
                if not found["namespaced"]:
                    return f"{prefix}/{found['name']}"
                namespace = manifest.get("metadata", {}).get("namespace") or "default"
                return f"{prefix}/namespaces/{namespace}/{found['name']}"
        raise KubernetesError(HTTPStatus.NOT_FOUND, f"the API has no {kind} in {version}")

    def open(self, seconds: float = TIMEOUT) -> http.client.HTTPSConnection:
        """A connection that is not made yet, on which nothing takes longer than ``seconds``."""
        name = self._access.server_name or self._host
        return _Connection(self._host, self._port, seconds, self._context, name)

    @property
    def headers(self) -> dict[str, str]:
        """What every request begins with. A pod's token is another one every hour; KubernetesError."""
        path = self._access.token
        if path is None:
            return {"Accept": JSON}
        try:
            token = path.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise KubernetesError(0, f"{path}: {error}") from error
        return {"Accept": JSON, "Authorization": f"Bearer {token}"}

    async def read_text(self, path: str) -> str:
        """An answer that is no JSON, such as metrics; KubernetesError, also when it is too long."""

        def read() -> Reply:
            status, answer = self._request("GET", path)
            text = answer.decode(errors="replace")
            if status >= HTTPStatus.BAD_REQUEST:
                raise KubernetesError(status, text[:200])
            return {"text": text}

        return str((await self._in_thread(read))["text"])

    def call_now(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        kind: str = JSON,
        max_reply: int = MAX_REPLY,
    ) -> Reply:
        """The same as :meth:`call` in the caller's thread."""
        status, answer = self._request(method, path, body, kind=kind, accept=JSON, max_reply=max_reply)
        reply = _parse(answer)
        if status >= HTTPStatus.BAD_REQUEST:
            message = str((reply or {}).get("message") or answer[:200].decode(errors="replace").strip())
            raise KubernetesError(status, message or HTTPStatus(status).phrase)
        if reply is None:
            start = answer[:80].decode(errors="replace")
            raise KubernetesError(0, f"{self._host}:{self._port}: {path} is no JSON: {start!r}")
        return reply

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        kind: str = JSON,
        accept: str = "*/*",
        max_reply: int = MAX_REPLY,
    ) -> tuple[int, bytes]:
        headers = self.headers | {"Content-Type": kind, "Accept": accept}
        text = None if body is None else json.dumps(body)
        send = partial(self._send, method, path, text, headers, max_reply + 1)
        try:
            status, answer = _send_until_final(send, may_resend=method == "GET")
        except (OSError, http.client.HTTPException, UnicodeError) as error:  # UnicodeError: no host's name
            raise KubernetesError(0, f"{self._host}:{self._port}: {error}") from error
        if len(answer) > max_reply:
            raise TooLongError(0, f"{path} has more than {max_reply >> 20} MiB")
        return status, answer

    def _send(
        self, method: str, path: str, text: str | None, headers: Mapping[str, str], max_bytes: int
    ) -> tuple[int, bytes, float | None]:
        """One request: its status, ``max_bytes`` of its body at most, the seconds before a repeat, if any."""
        connection = self.open()
        try:
            connection.request(method, path, text, headers)
            response = connection.getresponse()
            return response.status, response.read(max_bytes), _find_pause(response)
        finally:
            connection.close()


def _send_until_final(
    send: Callable[[], tuple[int, bytes, float | None]], *, may_resend: bool
) -> tuple[int, bytes]:
    """Repeat a request as its answers demand, and with ``may_resend`` one that ends without an answer."""
    for _ in range(MAX_REPEATS):
        try:
            status, answer, pause = send()
        except _ENDED:
            if not may_resend:
                raise
            continue
        if pause is None:
            return status, answer
        time.sleep(pause)
    status, answer, _ = send()
    return status, answer


def _parse(answer: bytes) -> Reply | None:
    """An answer's object, an empty one when the answer is empty; None when it is anything else."""
    try:
        reply: object = json.loads(answer) if answer else {}
    except (ValueError, RecursionError):
        return None
    return cast("Reply", reply) if isinstance(reply, dict) else None


def _find_pause(response: http.client.HTTPResponse) -> float | None:
    """The seconds to wait before a refused request is repeated; none when it need not be."""
    delay = response.headers.get("Retry-After", "")
    if response.status != HTTPStatus.SERVICE_UNAVAILABLE or not delay.isdecimal():
        return None
    return min(float(delay), MAX_RETRY_DELAY)
