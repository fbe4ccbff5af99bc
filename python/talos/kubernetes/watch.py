"""One watch of the Kubernetes API: events of a collection as they come, read by a thread.

https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

import json
import socket
from collections.abc import Generator, Mapping
from contextlib import suppress
from http.client import HTTPException
from typing import Any, cast

from talos.kubernetes.client import MAX_REPLY, KubernetesClient, KubernetesError
from talos.system.net.tcp import TCP_KEEPIDLE

WATCH_TIMEOUT = 300.0
"""Seconds after which the server ends a watch, which is then begun again where it was."""
TIMEOUT_MARGIN = 15.0
"""Seconds beyond the period until a server counts as lost."""
KEEPALIVE = {TCP_KEEPIDLE: 20, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
"""Seconds, seconds and number: how a connection whose other end is gone is noticed."""

type Object = Mapping[str, Any]


def make_path(query: str, version: str) -> str:
    """The path of a watch that begins where a list, or another watch, ended."""
    ends = f"timeoutSeconds={WATCH_TIMEOUT:.0f}"
    return f"{query}&watch=1&resourceVersion={version}&{ends}&allowWatchBookmarks=1"


def check_event(event: Object) -> Object:
    """The object of an event; KubernetesError when it is the end of the watch."""
    found: Object = event["object"]
    if event["type"] == "ERROR":
        code: object = found.get("code")
        raise KubernetesError(code if isinstance(code, int) else 0, str(found.get("message")))
    return found


def _parse_event(line: bytes, status: int) -> Object:
    """An event and its object; ValueError, and KubernetesError where the API refuses with one Status."""
    event: object = json.loads(line)
    if not isinstance(event, dict):
        raise ValueError("an event that is no object")  # noqa: TRY004 - the content is wrong, not a caller
    found = cast("Object", event)
    if "type" not in found:
        raise KubernetesError(status, str(found.get("message")))
    inner: object = found.get("object")
    if not isinstance(inner, dict):
        raise ValueError("an event without an object")  # noqa: TRY004 - likewise
    return found


class Watch:
    """A connection that is not made yet."""

    def __init__(self, client: KubernetesClient) -> None:
        self._client = client
        self._connection = client.open(WATCH_TIMEOUT + TIMEOUT_MARGIN)

    def read(self, path: str) -> Generator[Object]:
        """The events until the server ends them; KubernetesError. Blocks."""
        connection = self._connection
        try:
            connection.connect()
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in KEEPALIVE.items():
                connection.sock.setsockopt(socket.IPPROTO_TCP, option, value)
            connection.request("GET", path, headers=self._client.headers)
            response = connection.getresponse()
            while line := response.readline(MAX_REPLY):
                yield _parse_event(line, response.status)
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            raise KubernetesError(0, f"{connection.host}:{connection.port}: {error}") from error
        finally:
            connection.close()

    def end(self) -> None:
        """Wake the thread that reads from it, which closes it; TLS itself is not to be touched by two."""
        with suppress(OSError):
            if self._connection.sock is not None:
                socket.socket.shutdown(self._connection.sock, socket.SHUT_RDWR)
