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

PERIOD = 300.0
"""Seconds after which the server ends a watch, which is then begun again where it was."""
SPARE = 15.0
"""Seconds beyond the period until a server counts as lost."""
KEEPALIVE = {socket.TCP_KEEPIDLE: 20, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
"""Seconds, seconds and number: how a connection whose other end is gone is noticed."""

type Object = Mapping[str, Any]


def make_path(query: str, version: str) -> str:
    """The path of a watch that begins where a list, or another watch, ended."""
    return f"{query}&watch=1&resourceVersion={version}&timeoutSeconds={PERIOD:.0f}&allowWatchBookmarks=1"


def check_event(event: Object) -> Object:
    """The object of an event; KubernetesError when it is the end of the watch."""
    found: Object = event["object"]
    if event["type"] == "ERROR":
        raise KubernetesError(int(found.get("code", 0)), str(found.get("message")))
    return found


class Watch:
    """A connection that is not made yet."""

    def __init__(self, client: KubernetesClient) -> None:
        self._client = client
        self._connection = client.open(PERIOD + SPARE)

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
                event = cast("Object", json.loads(line))
                if "type" not in event:  # the API refuses with one Status
                    raise KubernetesError(response.status, str(event.get("message")))
                yield event
        except (OSError, HTTPException, ValueError) as error:
            raise KubernetesError(0, f"{connection.host}:{connection.port}: {error}") from error
        finally:
            connection.close()

    def end(self) -> None:
        """Wake the thread that reads from it, which closes it; TLS itself is not to be touched by two."""
        with suppress(OSError):
            if self._connection.sock is not None:
                socket.socket.shutdown(self._connection.sock, socket.SHUT_RDWR)
