"""StaticPodStatus: the static pods as the kubelet has them, also while no API server answers."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from typing import Any

import trio

from talos.api.common.common_pb2 import PEMEncodedCertificateAndKey
from talos.api.definitions.k8s_pb2 import StaticPodStatusSpec
from talos.kubed.admin import find_pause
from talos.kubed.node_access import KubeletIdentity
from talos.kubed.rollout import POD_UID, POD_VERSION, make_version
from talos.kubernetes.access import ClusterAccess, make_context
from talos.kubernetes.client import MAX_REPLY
from talos.pki.certificate import join_certificates
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.resource.objects import is_ready, to_plain, to_struct
from talos.system.logging import Log

PORT = 10250
TIMEOUT = 15.0  # seconds
POLL_INTERVAL = 15.0
"""Seconds between two checks, as upstream: the kubelet sends no notice."""
FIRST_POLL_INTERVAL, LATER_POLL_INTERVAL = 0.5, 2.0  # seconds
"""While a pod is not ready, or not gone: a tenth of what has passed since the last change, within these."""
SOURCE = "kubernetes.io/config.source"
STATIC = frozenset({"file", "http"})

type Pod = Mapping[str, Any]


class StaticPodStatusController(Controller):
    """The kubelet's pods → StaticPodStatus; on control plane nodes, which have a certificate for its port."""

    name = "k8s.KubeletStaticPodController"
    inputs = (
        Input(*ids.KUBERNETES_ROOT_SECRET),
        Input(*ids.KUBERNETES_DYNAMIC_CERT),
        Input(kinds.STATIC_POD),
    )
    outputs = (Output(kinds.STATIC_POD_STATUS),)

    def __init__(self, kubelet: KubeletIdentity, log: Log, *, port: int = PORT) -> None:
        self._kubelet = kubelet
        self._port = port
        self._log = log
        self._connection: HTTPSConnection | None = None
        self._trust: tuple[bytes, ...] = ()
        self._began = 0.0
        self._changed_at = 0.0

    async def run(self, runtime: ControllerRuntime) -> None:
        """Look at every change, when the kubelet has joined, and then again and again."""
        try:
            await self._follow(runtime)
        finally:
            self._close()

    async def _follow(self, runtime: ControllerRuntime) -> None:
        self._began = self._changed_at = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_identity, runtime)
            async for _ in runtime.events():
                pause = await self._update(runtime)
                runtime.reset_backoff()
                with trio.move_on_after(pause):
                    await runtime.wait_for_round()
                    self._changed_at = trio.current_time()
                runtime.queue_reconcile()

    async def _follow_identity(self, runtime: ControllerRuntime) -> None:
        while True:
            await self._kubelet.changed.wait()
            self._began = trio.current_time()
            runtime.queue_reconcile()

    async def _update(self, runtime: ControllerRuntime) -> float:
        """Write what the kubelet has; the seconds until the next check."""
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        certificates = await runtime.get_or_none(*ids.KUBERNETES_DYNAMIC_CERT)
        if root is None or certificates is None or not (self._kubelet.pem or self._kubelet.serving):
            return POLL_INTERVAL
        authority = join_certificates(root.spec.accepted_c_as)
        self._choose(authority, certificates.spec.api_server_kubelet_client)
        try:
            pods = await trio.to_thread.run_sync(self._read, abandon_on_cancel=True)
        except (OSError, HTTPException, ValueError) as error:
            self._log.once(f"the kubelet's pods can't be read: {error}", key="pods", level="info")
            return find_pause(self._began, LATER_POLL_INTERVAL)
        self._began = trio.current_time()
        async with runtime.track_outputs():
            for pod in pods:
                metadata = pod["metadata"]
                await runtime.put(
                    kinds.STATIC_POD_STATUS,
                    f"{metadata['namespace']}/{metadata['name']}",
                    StaticPodStatusSpec(pod_status=to_struct(pod["status"])),
                    annotations={POD_VERSION: make_version(pod), POD_UID: str(metadata["uid"])},
                )
        offered = [to_plain(pod.spec.pod) for pod in await runtime.list(kinds.STATIC_POD)]
        if has_taken(pods, offered):
            return POLL_INTERVAL
        return min(find_pause(self._changed_at, FIRST_POLL_INTERVAL), LATER_POLL_INTERVAL)

    def _choose(self, authority: bytes, client: PEMEncodedCertificateAndKey) -> None:
        """Have the next call made with these certificates; those of before may have been replaced."""
        trust = (authority, self._kubelet.serving, client.crt)
        if trust == self._trust and self._connection is not None:
            return
        access = ClusterAccess(
            server="", authority=authority + self._kubelet.serving, certificate=client.crt, key=client.key
        )
        context = make_context(access)
        context.check_hostname = False  # on this node's own loopback interface, by authorities of one node
        self._close()
        self._trust = trust
        self._connection = HTTPSConnection("127.0.0.1", self._port, timeout=TIMEOUT, context=context)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read(self) -> list[Pod]:
        """The static pods; the connection stays open, as making one costs more than all else here."""
        connection = self._connection
        assert connection is not None
        try:
            return _fetch_pods(connection)
        except (OSError, HTTPException):
            connection.close()
            return _fetch_pods(connection)  # it was closed meanwhile: http.client makes a new one


def _fetch_pods(connection: HTTPSConnection) -> list[Pod]:
    connection.request("GET", "/pods")
    response = connection.getresponse()
    content = response.read(MAX_REPLY)
    if response.status != HTTPStatus.OK:
        raise ValueError(f"{response.status}: {content[:200].decode(errors='replace')}")
    return [pod for pod in json.loads(content)["items"] or () if is_static(pod)]


def has_taken(pods: Sequence[Pod], offered: Sequence[Pod]) -> bool:
    """Whether the kubelet's pods are those that it is offered, ready, and none of before."""
    # Until the kubelet has taken a change it shows the pod of before, ready as that was.
    ready = {make_version(pod) for pod in pods if is_ready(pod["status"])}
    shown = {make_version(pod) for pod in pods}
    return shown <= {make_version(pod) for pod in offered} <= ready


def is_static(pod: Pod) -> bool:
    """Whether the pod is not from the API."""
    return pod["metadata"].get("annotations", {}).get(SOURCE) in STATIC
