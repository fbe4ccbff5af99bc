"""ImageService, and its two older methods: the images that containerd holds."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.common import common_pb2
from talos.api.containerd import images_pb2
from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.api.machine import image_pb2, machine_pb2
from talos.api.metadata import ADMIN, OPERATOR
from talos.api.rpc import Call, Code, Handler, RpcError, Send
from talos.api.timestamps import make_duration
from talos.images.reference import DIGEST, parse_reference
from talos.images.registry.hosts import NoSuchImageError, UnavailableRegistryError
from talos.machined.api import containerd_instances as instances
from talos.machined.containerd.client import PODS, SYSTEM, Containerd, find_root, open_namespace
from talos.machined.containerd.pull import (
    Admit,
    LayerProgress,
    Report,
    admit_all,
    pull_image,
    read_sources,
)
from talos.machined.containerd.release import check_manifest
from talos.machined.containerd.store import Image, read_image
from talos.machined.containerd.verify.search import Verifier
from talos.machined.node.ports.node import Node
from talos.system.errors import UserError

PROGRESS_INTERVAL = 0.2
"""Seconds between two messages about one layer."""
_NAMESPACES = {common_pb2.NS_SYSTEM: SYSTEM, common_pb2.NS_CRI: PODS}


async def list_images(containerd: Containerd) -> list[images_pb2.Image]:
    """All of a namespace, ordered by name."""
    request, reply = images_pb2.ListImagesRequest(), images_pb2.ListImagesResponse
    listed = await containerd.call("images.v1.Images/List", request, reply)
    return sorted(listed.images, key=lambda image: image.name)


async def measure(containerd: Containerd, target: Descriptor) -> int:
    """The bytes of an image for this machine: its manifests, its config and its layers.

    Of an image that is not complete only what is known is counted.
    """
    try:
        image = await read_image(containerd, "", target)
    except (RpcError, UserError):
        return target.size
    return image.size


async def remove_image(containerd: Containerd, reference: str) -> None:
    """Delete an image; its unshared content is freed when this returns. RpcError NOT_FOUND."""
    parsed = parse_reference(reference)
    name = str(parsed)
    before = await list_images(containerd)
    await _delete(containerd, name)
    # A pull names an image by its digest, too, and the plugin for Kubernetes by that of its config.
    digest = next((image.target.digest for image in before if image.name == name), "")
    others = [image.name for image in before if image.target.digest == digest and image.name != name]
    pinned = str(parsed.pinned(digest))
    if all(other == pinned or DIGEST.fullmatch(other) for other in others):
        for other in others:
            await _delete(containerd, other)


async def _delete(containerd: Containerd, name: str) -> None:
    request = images_pb2.DeleteImageRequest(name=name, sync=True)
    await containerd.call("images.v1.Images/Delete", request, Empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A namespace of one of the two instances of containerd; ``root`` is where it keeps content."""

    containerd: Containerd
    root: str


@asynccontextmanager
async def open_instance(
    node: Node, namespace: common_pb2.ContainerdNamespace, *, is_cri: bool
) -> AsyncGenerator[Instance]:
    """A namespace of an instance; INVALID_ARGUMENT, UNAVAILABLE."""
    name = _NAMESPACES.get(namespace)
    if name is None:
        raise RpcError(Code.INVALID_ARGUMENT, f"namespace {namespace} is not known, use system or cri")
    socket = instances.SOCKETS[PODS if is_cri else SYSTEM]
    async with await instances.connect_to(node, socket) as transport:
        containerd = open_namespace(transport, socket, name, node.workloads)
        yield Instance(containerd=containerd, root=find_root(socket))


def _choose_admission(node: Node, call: Call) -> Admit:
    """Who may only upgrade nodes pulls what upgrades them, and fills no disk with other images."""
    if call.roles & {ADMIN, OPERATOR}:
        return admit_all

    async def admit(data: bytes, where: str) -> None:
        await check_manifest(data, where, keys=node.upgrades.keys)

    return admit


def _open(node: Node, instance: common_pb2.ContainerdInstance) -> AbstractAsyncContextManager[Instance]:
    return open_instance(node, instance.namespace, is_cri=instance.driver == common_pb2.CRI)


def _open_old(node: Node, namespace: common_pb2.ContainerdNamespace) -> AbstractAsyncContextManager[Instance]:
    """The older methods have one instance only: etcd's and the kubelet's images are in its ``system``."""
    return open_instance(node, namespace, is_cri=True)


class ProgressFeed:
    """Sends the state of every layer that has changed, at most a few times a second."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._changed: dict[str, LayerProgress] = {}
        self._began: dict[str, float] = {}

    def report(self, progress: LayerProgress) -> None:
        """Note how far a layer is."""
        self._began.setdefault(progress.layer, trio.current_time())
        self._changed[progress.layer] = progress

    async def run(self) -> None:
        """Send what has been noted, until it is cancelled."""
        while True:
            await trio.sleep(PROGRESS_INTERVAL)
            await self.flush()

    async def flush(self) -> None:
        """Send what has been noted."""
        changed, self._changed = self._changed, {}
        for progress in changed.values():
            layer = image_pb2.ImageServicePullLayerProgress(
                status=progress.step.value,
                offset=progress.offset,
                total=progress.total,
            )
            elapsed = trio.current_time() - self._began[progress.layer]
            layer.elapsed.CopyFrom(make_duration(elapsed))
            pull = image_pb2.ImageServicePullProgress(layer_id=progress.layer, progress=layer)
            await self._send(image_pb2.ImageServicePullResponse(pull_progress=pull))


async def pull_into(
    instance: Instance,
    name: str,
    node: Node,
    *,
    report: Report = lambda _: None,
    admit: Admit = admit_all,
    names_digest: bool = False,
) -> Image:
    """Pull an image from the registries of the config; the arguments are those of :func:`pull_image`.

    RpcError: NOT_FOUND when no registry has it, as existing clients expect; UNAVAILABLE when one fails.
    UserError, which is answered as INVALID_ARGUMENT: the reference, or what a registry sends, is not right.
    """
    sources = await read_sources(node.state)
    verifier = Verifier(run=node.processes.capture, state=node.state)
    try:
        return await pull_image(
            instance.containerd,
            name,
            sources,
            root=instance.root,
            verifier=verifier,
            report=report,
            admit=admit,
            names_digest=names_digest,
        )
    except NoSuchImageError as error:
        raise RpcError(Code.NOT_FOUND, str(error)) from None
    except UnavailableRegistryError as error:
        raise RpcError(Code.UNAVAILABLE, str(error)) from None


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.ImageService."""

    async def list_all(request: image_pb2.ImageServiceListRequest, _call: Call, send: Send) -> None:
        async with _open(node, request.containerd) as instance:
            for image in await list_images(instance.containerd):
                await send(
                    image_pb2.ImageServiceListResponse(
                        name=image.name,
                        digest=image.target.digest,
                        size=await measure(instance.containerd, image.target),
                        created_at=image.created_at,
                        labels=image.labels,
                    )
                )

    async def pull(request: image_pb2.ImageServicePullRequest, call: Call, send: Send) -> None:
        feed = ProgressFeed(send)
        async with _open(node, request.containerd) as instance, trio.open_nursery() as nursery:
            nursery.start_soon(feed.run)
            admit = _choose_admission(node, call)
            image = await pull_into(
                instance, request.image_ref, node, report=feed.report, admit=admit, names_digest=True
            )
            nursery.cancel_scope.cancel()
        await feed.flush()
        await send(image_pb2.ImageServicePullResponse(name=image.name))

    async def load(
        requests: AsyncIterator[image_pb2.ImageServiceImportRequest], call: Call
    ) -> image_pb2.ImageServiceImportResponse:
        # Few nodes are ever sent an archive.
        from talos.machined.containerd.archive import import_archive

        del call
        first = await anext(requests, image_pb2.ImageServiceImportRequest())
        if not first.HasField("containerd"):
            raise RpcError(Code.INVALID_ARGUMENT, "the first message has to name the containerd instance")

        async def chunks() -> AsyncGenerator[bytes]:
            async for request in requests:
                yield request.image_chunk.bytes

        async with _open(node, first.containerd) as instance:
            names = await import_archive(instance.containerd, chunks(), root=instance.root)
        # An archive's padding is read, too: an answer before the last message is a failure to a Go client.
        async for _ in requests:
            pass
        return image_pb2.ImageServiceImportResponse(name=names[0])

    async def remove(request: image_pb2.ImageServiceRemoveRequest, _call: Call) -> Empty:
        async with _open(node, request.containerd) as instance:
            await remove_image(instance.containerd, request.image_ref)
        return Empty()

    return {"List": list_all, "Pull": pull, "Import": load, "Remove": remove}


def machine_handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService, for older clients."""

    async def list_all(request: machine_pb2.ImageListRequest, _call: Call, send: Send) -> None:
        async with _open_old(node, request.namespace) as instance:
            for image in await list_images(instance.containerd):
                await send(
                    machine_pb2.ImageListResponse(
                        name=image.name,
                        digest=image.target.digest,
                        size=await measure(instance.containerd, image.target),
                        created_at=image.created_at,
                    )
                )

    async def pull(request: machine_pb2.ImagePullRequest, _call: Call) -> machine_pb2.ImagePullResponse:
        async with _open_old(node, request.namespace) as instance:
            await pull_into(instance, request.reference, node, names_digest=True)
        return machine_pb2.ImagePullResponse(messages=[machine_pb2.ImagePull()])

    return {"ImageList": list_all, "ImagePull": pull}
