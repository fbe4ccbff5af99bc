"""The server from which the kubelet gets the static pods, at one address for as long as the node runs."""

import json
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import urlsplit

import trio

from talos.api.definitions.k8s_pb2 import StaticPodServerStatusSpec
from talos.config.static_pods import UIDS
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.resource.objects import to_plain
from talos.system.logging import Log

REQUEST_SECONDS = 60.0
"""Until the next request on a connection."""
MAX_REQUEST = 8192
"""Bytes of a request's head."""
HOST = "127.0.0.1"


class StaticPodServer(Controller):
    """StaticPod, the control plane's → HTTP on the loopback interface → StaticPodServerStatus.

    The kubelet takes the whole list or, for one pod that Kubernetes finds invalid, nothing of it. So each pod
    that the user wrote is a file: :mod:`talos.machined.controllers.k8s.static_pod_manifests`.
    """

    name = "k8s.StaticPodServerController"
    inputs = (Input(kinds.STATIC_POD),)
    outputs = (Output(kinds.STATIC_POD_SERVER_STATUS),)

    def __init__(self, log: Log) -> None:
        self._log = log
        self._reply = b""

    async def run(self, runtime: ControllerRuntime) -> None:
        """Serve the list of pods as it is at each request."""
        async with trio.open_nursery() as nursery:
            port = 0
            async for _ in runtime.events():
                found = {pod.metadata.id: pod for pod in await runtime.list(kinds.STATIC_POD)}
                self._reply = make_reply([to_plain(found[id_].spec.pod) for id_ in UIDS if id_ in found])
                # Only with a reply: to an empty list the kubelet would end every pod.
                if not port:
                    listeners = await self._listen(runtime)
                    port = listeners[0].socket.getsockname()[1]
                    nursery.start_soon(trio.serve_listeners, self._serve, listeners)
                await runtime.put(
                    *ids.STATIC_POD_SERVER_STATUS, StaticPodServerStatusSpec(url=f"http://{HOST}:{port}")
                )

    async def _listen(self, runtime: ControllerRuntime) -> list[trio.SocketListener]:
        """Listen where this daemon did before it was started again: another URL restarts the kubelet."""
        status = await runtime.get_or_none(*ids.STATIC_POD_SERVER_STATUS)
        former = (urlsplit(status.spec.url).port or 0) if status is not None else 0
        if former:
            try:
                return await trio.open_tcp_listeners(former, host=HOST)
            except OSError as error:
                reason = error.strerror or str(error)
                self._log.warning(f"static pods leave port {former}, which restarts the kubelet: {reason}")
        return await trio.open_tcp_listeners(0, host=HOST)

    async def _serve(self, stream: trio.SocketStream) -> None:
        """Answer every request of a connection, which the kubelet keeps: it asks each second."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            head = b""
            while True:
                with trio.fail_after(REQUEST_SECONDS):
                    while b"\r\n\r\n" not in head:
                        part = await stream.receive_some(MAX_REQUEST)
                        head += part
                        if not part or len(head) > MAX_REQUEST:
                            return
                    await stream.send_all(self._reply)
                _, _, head = head.partition(b"\r\n\r\n")


def make_reply(found: list[dict[str, object]]) -> bytes:
    """The HTTP response with a PodList, whatever is asked for."""
    body = json.dumps({"apiVersion": "v1", "kind": "PodList", "items": found}).encode()
    head = (
        f"HTTP/1.1 {HTTPStatus.OK.value} {HTTPStatus.OK.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
