"""KubeletKubeconfig: whether the kubelet has joined its cluster, and when its kubeconfig is another one."""

import hashlib
from pathlib import Path

import trio

from talos.api.definitions.k8s_pb2 import KubeletKubeconfigSpec
from talos.machined.controllers.k8s.kubelet_files import KubeletFilesController
from talos.machined.services.kubelet import KUBECONFIG, KUBELET
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output


class KubeletKubeconfigController(KubeletFilesController):
    """The file → KubeletKubeconfig, with its SHA-256; none until there is one."""

    name = "k8s.KubeletKubeconfigController"
    inputs = (Input(kinds.SERVICE, KUBELET),)
    outputs = (Output(kinds.KUBELET_KUBECONFIG),)

    def __init__(self, path: Path = KUBECONFIG) -> None:
        super().__init__(path.parent)
        self._path = trio.Path(path)

    async def follow(self, runtime: ControllerRuntime) -> None:
        """Write the one resource."""
        try:
            content = await self._path.read_bytes()
        except FileNotFoundError:
            await runtime.remove(*ids.KUBELET_KUBECONFIG)
        else:
            spec = KubeletKubeconfigSpec(hash=hashlib.sha256(content).hexdigest())
            await runtime.put(*ids.KUBELET_KUBECONFIG, spec)
