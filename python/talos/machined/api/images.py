"""ImageService, and its two older methods: the images that containerd holds."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from talos.api.common import common_pb2
from talos.api.containerd import (
    content_pb2,
    descriptor_pb2,
    images_pb2,
    transfer_pb2,
    transfer_types_pb2,
)
from talos.api.machine import image_pb2, machine_pb2
from talos.api.rpc import Call, Code, Handler, RpcError, Send, Transport
from talos.machined.api import containerd
from talos.machined.node.ports import Node

SNAPSHOTTER = "overlayfs"
_LIST = "/containerd.services.images.v1.Images/List"
_DELETE = "/containerd.services.images.v1.Images/Delete"
_READ = "/containerd.services.content.v1.Content/Read"
_TRANSFER = "/containerd.services.transfer.v1.Transfer/Transfer"
_MAX_MANIFEST = 4 * 1024 * 1024
_PLATFORM = descriptor_pb2.Platform(os="linux", architecture="amd64")
_DEFAULT_REGISTRY, _OFFICIAL, _DEFAULT_TAG = "docker.io", "library", "latest"
_NAMESPACES = {common_pb2.NS_SYSTEM: containerd.SYSTEM, common_pb2.NS_CRI: containerd.PODS}


@dataclass(frozen=True, slots=True)
class Images:
    """The images of one namespace."""

    transport: Transport
    namespace: str

    async def list(self) -> list[images_pb2.Image]:
        """All of them, ordered by name."""
        reply = await self.transport.unary(
            _LIST,
            images_pb2.ListImagesRequest(),
            images_pb2.ListImagesResponse,
            metadata=containerd.in_namespace(self.namespace),
            timeout=containerd.TIMEOUT,
        )
        return sorted(reply.images, key=lambda image: image.name)

    async def measure(self, target: descriptor_pb2.Descriptor) -> int:
        """The bytes of an image for this machine: its manifests, its config and its layers.

        Of an image that is not complete only what is known is counted.
        """
        try:
            manifest = await self._read_manifest(target.digest)
        except (RpcError, ValueError):
            return target.size
        if "manifests" in manifest:
            chosen = next((one for one in manifest["manifests"] if _is_ours(one.get("platform", {}))), None)
            if chosen is None:
                return target.size
            inner = descriptor_pb2.Descriptor(digest=chosen["digest"], size=chosen["size"])
            return target.size + await self.measure(inner)
        parts = [manifest.get("config", {}), *manifest.get("layers", ())]
        return target.size + sum(int(part.get("size", 0)) for part in parts)

    async def _read_manifest(self, digest: str) -> dict[str, Any]:
        request = content_pb2.ReadContentRequest(digest=digest, size=_MAX_MANIFEST)
        data = b""
        async with self.transport.stream(
            _READ,
            request,
            content_pb2.ReadContentResponse,
            metadata=containerd.in_namespace(self.namespace),
            timeout=containerd.TIMEOUT,
        ) as chunks:
            async for chunk in chunks:
                data += chunk.data
        return cast("dict[str, Any]", json.loads(data))

    async def pull(self, reference: str) -> str:
        """Have containerd fetch and unpack an image from its own registry; its full name.

        The transfer service of containerd 1.7 reads no description of mirrors.
        """
        name = complete_reference(reference)
        registry = transfer_types_pb2.OCIRegistry(reference=name)
        unpack = transfer_types_pb2.UnpackConfiguration(platform=_PLATFORM, snapshotter=SNAPSHOTTER)
        store = transfer_types_pb2.ImageStore(name=name, platforms=[_PLATFORM], unpacks=[unpack])
        request = transfer_pb2.TransferRequest(source=_pack(registry), destination=_pack(store))
        await self.transport.unary(
            _TRANSFER, request, Empty, metadata=containerd.in_namespace(self.namespace)
        )
        return name

    async def remove(self, reference: str) -> None:
        """Delete an image; its unshared content is freed when this returns."""
        await self.transport.unary(
            _DELETE,
            images_pb2.DeleteImageRequest(name=reference, sync=True),
            Empty,
            metadata=containerd.in_namespace(self.namespace),
            timeout=containerd.TIMEOUT,
        )


def _pack(message: Message) -> AnyMessage:
    # containerd's type URLs are bare names.
    return AnyMessage(type_url=message.DESCRIPTOR.full_name, value=message.SerializeToString())


def _is_ours(platform: Mapping[str, str]) -> bool:
    return (platform.get("os"), platform.get("architecture")) == (_PLATFORM.os, _PLATFORM.architecture)


def complete_reference(reference: str) -> str:
    """An image's full name: with its registry and a tag.

    Raises:
        RpcError: INVALID_ARGUMENT when it is empty or holds blanks.
    """
    if not reference or any(character.isspace() for character in reference):
        raise RpcError(Code.INVALID_ARGUMENT, f"{reference!r} is no reference to an image")
    name, at, digest = reference.partition("@")
    first, slash, _ = name.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        name = f"{_DEFAULT_REGISTRY}/{name if slash else f'{_OFFICIAL}/{name}'}"
    if not at and ":" not in name.rpartition("/")[2]:
        name += f":{_DEFAULT_TAG}"
    return name + at + digest


@asynccontextmanager
async def open_images(
    node: Node, namespace: common_pb2.ContainerdNamespace, *, is_cri: bool
) -> AsyncGenerator[Images]:
    """The images of a namespace in one of the two instances."""
    name = _NAMESPACES.get(namespace)
    if name is None:
        raise RpcError(Code.INVALID_ARGUMENT, f"namespace {namespace} is not known, use system or cri")
    socket = containerd.SOCKETS[containerd.PODS if is_cri else containerd.SYSTEM]
    async with await containerd.connect_to(node, socket) as transport:
        yield Images(transport, name)


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.ImageService."""

    async def list_images(request: image_pb2.ImageServiceListRequest, call: Call, send: Send) -> None:
        del call
        async with _open(request.containerd) as images:
            for image in await images.list():
                await send(
                    image_pb2.ImageServiceListResponse(
                        name=image.name,
                        digest=image.target.digest,
                        size=await images.measure(image.target),
                        created_at=image.created_at,
                        labels=image.labels,
                    )
                )

    async def pull(request: image_pb2.ImageServicePullRequest, call: Call, send: Send) -> None:
        del call
        async with _open(request.containerd) as images:
            name = await images.pull(request.image_ref)
        await send(image_pb2.ImageServicePullResponse(name=name))

    async def remove(request: image_pb2.ImageServiceRemoveRequest, call: Call) -> Empty:
        del call
        async with _open(request.containerd) as images:
            await images.remove(complete_reference(request.image_ref))
        return Empty()

    def _open(instance: common_pb2.ContainerdInstance) -> Any:
        is_cri = instance.driver == common_pb2.CRI
        return open_images(node, instance.namespace, is_cri=is_cri)

    return {"List": list_images, "Pull": pull, "Remove": remove}


def machine_handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService, for older clients."""

    async def list_images(request: machine_pb2.ImageListRequest, call: Call, send: Send) -> None:
        del call
        async with open_images(node, request.namespace, is_cri=_is_cri(request.namespace)) as images:
            for image in await images.list():
                await send(
                    machine_pb2.ImageListResponse(
                        name=image.name,
                        digest=image.target.digest,
                        size=await images.measure(image.target),
                        created_at=image.created_at,
                    )
                )

    async def pull(request: machine_pb2.ImagePullRequest, call: Call) -> machine_pb2.ImagePullResponse:
        del call
        async with open_images(node, request.namespace, is_cri=_is_cri(request.namespace)) as images:
            await images.pull(request.reference)
        return machine_pb2.ImagePullResponse(messages=[machine_pb2.ImagePull()])

    return {"ImageList": list_images, "ImagePull": pull}


def _is_cri(namespace: common_pb2.ContainerdNamespace) -> bool:
    return namespace == common_pb2.NS_CRI
