"""The server from which the kubelet gets the static pods, at one address for as long as the node runs.

PID 1 holds its socket. The kubelet uses neither TLS nor a secret and runs what it gets as root: were the port
free while this daemon is replaced, any process in the node's network, such as a pod's, could answer there.

A kubelet that gets a new version of a pod while the old one runs ends that, and then looks only after ten to
fifteen seconds whether it may start the new one, although the old one may have ended within two. The
controller manager and the scheduler end when they have no API server for ten seconds. So a version that
replaces another one is served once that has ended.
"""

import json
import math
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import trio

from talos.api.definitions.k8s_pb2 import StaticPodServerStatusSpec
from talos.config.static_pods import UIDS
from talos.kubed.rollout import POD_UID, make_status_id
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.resource.objects import to_plain
from talos.system.cgroups import PodGroup, find_pod_group

REQUEST_TIMEOUT = 60.0  # seconds
"""Until the next request on a connection."""
MAX_REQUEST = 8192
"""Bytes of a request's head."""
END_TIMEOUT = 60.0
"""Seconds for the old version to end; after this the kubelet has both."""
SETTLE = 0.3
"""Seconds from the end of its group until the kubelet has let go of it."""
LIST_DELAY = 1.3
"""Seconds from the end of its containers until then, at least: the kubelet lets go only after it has listed
the containers anew, each second, although what tidies up may have removed the group before."""
POLL_INTERVAL = 0.2
"""Seconds between two checks whether it has ended. The kubelet itself is not called: it has the API server
authorize the call, which may be the very pod."""

type Pod = Mapping[str, Any]


@dataclass(slots=True)
class _TerminatingPod:
    """The version of a pod that is replaced, and until when the new one waits, on trio's clock."""

    uid: str
    until: float
    stopped_at: float | None = None
    """When it had no container any more."""


class Replacements:
    """New versions of pods, which wait until the old ones have ended."""

    def __init__(self, find_group: Callable[[str], PodGroup] = find_pod_group) -> None:
        self._find_group = find_group
        self._offered: Mapping[str, Pod] = {}
        self._endings: dict[str, _TerminatingPod] = {}

    def choose(self, offered: Mapping[str, Pod], uids: Mapping[str, str]) -> list[Pod]:
        """The pods to serve now; ``uids`` are those that the kubelet has shown last."""
        now = trio.current_time()
        for name in offered.keys() & uids.keys() - self._endings.keys():
            if self._offered.get(name, offered[name]) != offered[name]:
                self._endings[name] = _TerminatingPod(uids[name], now + END_TIMEOUT)
        for ending in self._endings.values():
            group = self._find_group(ending.uid)
            if ending.stopped_at is None and group is not PodGroup.BUSY:
                ending.stopped_at = now
            if ending.stopped_at is not None and group is PodGroup.GONE:
                ending.until = min(ending.until, max(now + SETTLE, ending.stopped_at + LIST_DELAY))
        self._offered = offered
        self._endings = {
            name: ending for name, ending in self._endings.items() if name in offered and ending.until > now
        }
        return [pod for name, pod in offered.items() if name not in self._endings]

    @property
    def pause(self) -> float:
        """Seconds until the next check."""
        return POLL_INTERVAL if self._endings else math.inf


class StaticPodServer(Controller):
    """StaticPod, the control plane's, StaticPodStatus → HTTP on 127.0.0.1 → StaticPodServerStatus.

    The kubelet takes the whole list or, for one pod that Kubernetes finds invalid, nothing of it. So each pod
    that the user wrote is a file: :mod:`talos.machined.controllers.k8s.user_pods`.
    """

    name = "k8s.StaticPodServerController"
    inputs = (Input(kinds.STATIC_POD), Input(kinds.STATIC_POD_STATUS), Input(*ids.NODENAME))
    outputs = (Output(kinds.STATIC_POD_SERVER_STATUS),)

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._reply = b""
        self._replacements = Replacements()

    async def run(self, runtime: ControllerRuntime) -> None:
        """Serve the list of pods as it is at each request."""
        async with trio.open_nursery() as nursery:
            is_serving = False
            while True:
                await runtime.wait_for_round(self._replacements.pause)
                self._reply = make_reply(await self._choose(runtime))
                # Only with a reply: to an empty list the kubelet would end every pod.
                if not is_serving:
                    is_serving = True
                    # Of this run: one that fails closes its own.
                    listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._listener.dup()))
                    nursery.start_soon(trio.serve_listeners, self._serve, [listener])
                host, port = self._listener.getsockname()
                await runtime.put(
                    *ids.STATIC_POD_SERVER_STATUS, StaticPodServerStatusSpec(url=f"http://{host}:{port}")
                )

    async def _choose(self, runtime: ControllerRuntime) -> list[Pod]:
        found = {pod.metadata.id: pod for pod in await runtime.list(kinds.STATIC_POD)}
        offered = {name: to_plain(found[name].spec.pod) for name in UIDS if name in found}
        nodename = await runtime.get_or_none(*ids.NODENAME)
        node = nodename.spec.nodename if nodename is not None else ""
        uids: dict[str, str] = {}
        for name, pod in offered.items():
            status = await runtime.get_or_none(kinds.STATIC_POD_STATUS, make_status_id(pod, node))
            if status is not None and (uid := status.metadata.annotations.get(POD_UID)):
                uids[name] = uid
        return self._replacements.choose(offered, uids)

    async def _serve(self, stream: trio.SocketStream) -> None:
        """Answer every request of a connection, which the kubelet keeps: it sends one each second."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            head = b""
            while True:
                with trio.fail_after(REQUEST_TIMEOUT):
                    while b"\r\n\r\n" not in head:
                        part = await stream.receive_some(MAX_REQUEST)
                        head += part
                        if not part or len(head) > MAX_REQUEST:
                            return
                    await stream.send_all(self._reply)
                _, _, head = head.partition(b"\r\n\r\n")


def make_reply(found: list[Pod]) -> bytes:
    """The HTTP response with a PodList, whatever the path."""
    body = json.dumps({"apiVersion": "v1", "kind": "PodList", "items": found}).encode()
    head = (
        f"HTTP/1.1 {HTTPStatus.OK.value} {HTTPStatus.OK.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
