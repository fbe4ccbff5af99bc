"""kubed gets the kubelet's certificate: on a worker there is no other one that Kubernetes accepts."""

from pathlib import Path

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.internal.kubelet_pb2 import IdentifyRequest
from talos.machined.services.health import Connect
from talos.machined.services.kubelet import IDENTIFY, KUBELET, PKI
from talos.process.daemons import KUBED
from talos.resource import kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input
from talos.system.inotify import DirectoryWatch

CERTIFICATE = "kubelet-client-current.pem"
"""The kubelet's link to its newest certificate and key."""
SERVING = "kubelet.crt"
"""That of its port and the authority that the kubelet has made for it."""


class KubeletIdentityController(Controller):
    """The kubelet's files → kubed, at every change of them and every start of kubed."""

    name = "k8s.KubeletIdentityController"
    inputs = (Input(kinds.SERVICE, KUBELET), Input(kinds.SERVICE, KUBED.name))

    def __init__(self, connect: Connect, folder: Path = Path(PKI)) -> None:
        self._connect = connect
        self._folder = folder
        self._is_watching = False

    async def run(self, runtime: ControllerRuntime) -> None:
        """Work from when the kubelet runs, whose files are on a disk."""
        self._is_watching = False
        async with trio.open_nursery() as nursery:
            async for _ in runtime.events():
                kubelet = await runtime.get_or_none(kinds.SERVICE, KUBELET)
                kubed = await runtime.get_or_none(kinds.SERVICE, KUBED.name)
                if kubelet is not None and kubelet.spec.running and not self._is_watching:
                    await nursery.start(self._watch, runtime)
                if self._is_watching and kubed is not None and kubed.spec.healthy:
                    await self._hand_over()
                runtime.reset_backoff()

    async def _watch(
        self, runtime: ControllerRuntime, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with DirectoryWatch(self._folder) as changes:
            self._is_watching = True
            task_status.started()
            while True:
                await changes.wait()
                runtime.queue_reconcile()

    async def _hand_over(self) -> None:
        try:
            pem = await trio.Path(self._folder / CERTIFICATE).read_bytes()
        except FileNotFoundError:  # it has not joined yet
            return
        try:
            serving = await trio.Path(self._folder / SERVING).read_bytes()
        except FileNotFoundError:  # the cluster signs it
            serving = b""
        async with self._connect(KUBED.socket) as transport:
            await transport.unary(IDENTIFY, IdentifyRequest(pem=pem, serving=serving), Empty)
