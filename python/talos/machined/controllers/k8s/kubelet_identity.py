"""kubed gets the kubelet's certificate: on a worker there is no other one that Kubernetes accepts."""

from pathlib import Path

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.internal.kubelet_pb2 import IdentifyRequest
from talos.machined.controllers.k8s.kubelet_files import KubeletFilesController
from talos.machined.services.health import Connect
from talos.machined.services.kubelet import IDENTIFY, KUBELET, PKI
from talos.process.daemons import KUBED
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input

CERTIFICATE = "kubelet-client-current.pem"
"""The kubelet's link to its newest certificate and key."""
SERVING = "kubelet.crt"
"""That of its port and the authority that the kubelet has made for it."""


class KubeletIdentityController(KubeletFilesController):
    """The kubelet's files → kubed, at every change of them and every start of kubed."""

    name = "k8s.KubeletIdentityController"
    inputs = (Input(kinds.SERVICE, KUBELET), Input(kinds.SERVICE, KUBED.name))

    def __init__(self, connect: Connect, folder: Path = Path(PKI)) -> None:
        super().__init__(folder)
        self._connect = connect

    async def follow(self, runtime: ControllerRuntime) -> None:
        """Hand the files over, while kubed is there."""
        kubed = await runtime.get_or_none(kinds.SERVICE, KUBED.name)
        if kubed is None or not kubed.spec.healthy:
            return
        # It has not joined yet, or never will: a node may be left out of the cluster.
        pem = await _read(self._folder / CERTIFICATE)
        serving = await _read(self._folder / SERVING)  # none where the cluster signs it
        if not pem and not serving:
            return
        async with self._connect(KUBED.socket) as transport:
            await transport.unary(IDENTIFY, IdentifyRequest(pem=pem, serving=serving), Empty)


async def _read(path: Path) -> bytes:
    """A file's content; empty where it is not there."""
    try:
        return await trio.Path(path).read_bytes()
    except FileNotFoundError:
        return b""
