"""Removal of images of the system that nothing uses any more: etcd's and the kubelet's after an upgrade.

So it is in both instances of containerd: images of debug containers are in the system's own, and there in
memory. The kubelet itself looks after those of pods.
"""

import time
from collections.abc import Iterable

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.containerd import containers_pb2, images_pb2
from talos.api.rpc import RpcError
from talos.images.reference import parse_reference
from talos.machined.containerd.client import CRI_SOCKET, SYSTEM, SYSTEM_SOCKET, Connect, Containerd
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input
from talos.system.errors import UserError
from talos.system.logging import Log

INTERVAL = 15 * 60.0
"""Seconds between two checks."""
MIN_AGE = 4 * INTERVAL
"""Seconds for which an image stays at least: it may have been pulled for what is to come."""
INSTANCES = {"cri": CRI_SOCKET, "containerd": SYSTEM_SOCKET}
"""The services of the two instances."""


class CRIImageGCController(Controller):
    """Removes images from time to time."""

    name = "runtime.CRIImageGCController"
    inputs = (
        *(Input(kinds.SERVICE, id=name) for name in INSTANCES),
        Input(*ids.ETCD_SPEC),
        Input(kinds.KUBELET_SPEC),
    )

    def __init__(self, connect: Connect, log: Log) -> None:
        self._connect = connect
        self._log = log

    async def run(self, runtime: ControllerRuntime) -> None:
        """Look until cancelled."""
        while True:
            await trio.sleep(INTERVAL)
            etcd = await runtime.get_or_none(*ids.ETCD_SPEC)
            wanted = [kubelet.spec.image for kubelet in await runtime.list(kinds.KUBELET_SPEC)]
            wanted += [etcd.spec.image] if etcd is not None else []
            for name, socket in INSTANCES.items():
                service = await runtime.get_or_none(kinds.SERVICE, name)
                if service is None or not service.spec.healthy:
                    continue
                try:
                    async with self._connect(socket) as transport:
                        await self._clean(Containerd(transport, SYSTEM), wanted)
                except RpcError as error:
                    self._log.once("images that nothing uses can't be removed yet", reason=str(error))

    async def _clean(self, containerd: Containerd, wanted: Iterable[str]) -> None:
        listed = await containerd.call(
            "containers.v1.Containers/List",
            containers_pb2.ListContainersRequest(),
            containers_pb2.ListContainersResponse,
        )
        images = await containerd.call(
            "images.v1.Images/List", images_pb2.ListImagesRequest(), images_pb2.ListImagesResponse
        )
        used = [*wanted, *(container.image for container in listed.containers)]
        for name in find_unused(images.images, used, time.time()):
            self._log.info("an image that nothing uses is removed", image=name)
            request = images_pb2.DeleteImageRequest(name=name)
            await containerd.remove("images.v1.Images/Delete", request, Empty)


def find_unused(images: Iterable[images_pb2.Image], used: Iterable[str], now: float) -> list[str]:
    """The names of images that are older than :data:`MIN_AGE` and not among those used; ``now`` in seconds.

    An image stays under every name as long as it is used under one.
    """
    names = {_complete(name) for name in used}
    found = list(images)
    digests = {image.target.digest for image in found if image.name in names}
    return [
        image.name
        for image in found
        if image.name not in names
        and image.target.digest not in digests
        and max(image.created_at.seconds, image.updated_at.seconds) + MIN_AGE < now
    ]


def _complete(name: str) -> str:
    try:
        return str(parse_reference(name))
    except UserError:
        return name
