"""Images in containerd: what their manifests have, and their layers unpacked."""

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.containerd import content_pb2, diff_pb2, images_pb2, mount_pb2, snapshots_pb2
from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.api.rpc import Code, RpcError
from talos.images.manifest import (
    MAX_MANIFEST,
    ImageConfig,
    Manifest,
    find_form,
    parse_config,
    parse_index,
    parse_manifest,
)
from talos.machined.containerd.bounds import MIN_UNPACK_RATE, RESERVE, UNPACK_TIMEOUT
from talos.machined.containerd.client import SNAPSHOTTER, TIMEOUT, Containerd
from talos.system.errors import UserError

POLL_INTERVAL = 0.1
"""Seconds between two checks of the disk while a layer is unpacked: nothing has its size before."""
_UPPER = "upperdir="
_NO_SPACE, _ENDED = "no space left on device", "unexpected EOF"
SNAPSHOT_LABEL = f"containerd.io/gc.ref.snapshot.{SNAPSHOTTER}"
"""On a config: the snapshot of its layers, which the collector of garbage then spares."""


def measure_room(path: str) -> float:
    """Bytes that an image may still take on the disk of a folder; infinite where there is no such folder."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return math.inf
    return max(disk.f_bavail * disk.f_frsize - RESERVE, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image that is complete in containerd."""

    name: str
    manifest: Manifest
    config: ImageConfig
    size: int
    """Bytes of all of its parts, as they are stored."""

    @property
    def snapshot(self) -> str:
        """The snapshot of all of its layers; none of an image without any."""
        chain = self.config.chain_ids
        return chain[-1] if chain else ""


async def find_image(containerd: Containerd, name: str) -> Image | None:
    """An image by its full name; None when it isn't there or not complete."""
    request = images_pb2.GetImageRequest(name=name)
    found = await containerd.find("images.v1.Images/Get", request, images_pb2.GetImageResponse)
    if found is None:
        return None
    try:
        return await read_image(containerd, name, found.image.target)
    except RpcError as error:
        if error.code is Code.NOT_FOUND:
            return None
        raise


async def read_image(containerd: Containerd, name: str, target: Descriptor) -> Image:
    """The manifest behind a descriptor, parsed; UserError, RpcError."""
    where = f"image {name}"
    data = await read_content(containerd, target, where)
    size = target.size
    if find_form(data, target.media_type, where) == "index":
        target = await trio.to_thread.run_sync(parse_index, data, where)
        size += target.size
        data = await read_content(containerd, target, where)
    manifest = await trio.to_thread.run_sync(parse_manifest, data, where)
    content = await read_content(containerd, manifest.config, where)
    config = await trio.to_thread.run_sync(parse_config, content, where)
    if len(config.diff_ids) != len(manifest.layers):
        raise UserError("its config has another number of layers than its manifest", where=where)
    return Image(name=name, manifest=manifest, config=config, size=size + manifest.size)


async def read_content(containerd: Containerd, descriptor: Descriptor, where: str) -> bytes:
    """A small piece of content; UserError when it is large, RpcError when it isn't there."""
    if descriptor.size > MAX_MANIFEST:
        raise UserError(f"a manifest or config of {descriptor.size} bytes", where=where)
    request = content_pb2.ReadContentRequest(digest=descriptor.digest, size=descriptor.size)
    parts: list[bytes] = []
    async with containerd.transport.stream(
        "/containerd.services.content.v1.Content/Read",
        request,
        content_pb2.ReadContentResponse,
        metadata=containerd.metadata,
        timeout=TIMEOUT,
    ) as chunks:
        async for chunk in chunks:
            parts.append(chunk.data)  # noqa: PERF401 - it is a stream
    return b"".join(parts)


async def unpack(containerd: Containerd, image: Image) -> None:
    """Make the snapshots of an image's layers, those that are missing; under a lease. UserError, RpcError."""
    parent = ""
    for chain_id, diff_id, layer in zip(
        image.config.chain_ids, image.config.diff_ids, image.manifest.layers, strict=True
    ):
        if not await has_snapshot(containerd, chain_id):
            await _unpack_layer(containerd, layer, diff_id, chain_id, parent, f"image {image.name}")
        parent = chain_id
    if parent:
        await label_content(containerd, image.manifest.config.digest, {SNAPSHOT_LABEL: parent})


async def label_content(containerd: Containerd, digest: str, labels: Mapping[str, str]) -> None:
    """Set labels of content."""
    request = content_pb2.UpdateRequest(info=content_pb2.Info(digest=digest, labels=labels))
    request.update_mask.paths.extend(f"labels.{name}" for name in labels)
    await containerd.call("content.v1.Content/Update", request, content_pb2.UpdateResponse)


async def has_snapshot(containerd: Containerd, key: str) -> bool:
    """Whether there is a snapshot."""
    request = snapshots_pb2.StatSnapshotRequest(snapshotter=SNAPSHOTTER, key=key)
    reply = snapshots_pb2.StatSnapshotResponse
    return await containerd.find("snapshots.v1.Snapshots/Stat", request, reply) is not None


async def _unpack_layer(
    containerd: Containerd, layer: Descriptor, diff_id: str, chain_id: str, parent: str, where: str
) -> None:
    key = f"extract-{containerd.lease} {chain_id}"
    prepare = snapshots_pb2.PrepareSnapshotRequest(
        snapshotter=SNAPSHOTTER, key=key, parent=parent, labels={"containerd.io/snapshot.ref": chain_id}
    )
    reply = snapshots_pb2.PrepareSnapshotResponse
    try:
        prepared = await containerd.call("snapshots.v1.Snapshots/Prepare", prepare, reply)
    except RpcError as error:
        if error.code is not Code.ALREADY_EXISTS:  # made meanwhile, perhaps in another namespace
            raise
        return
    try:
        _check_digest(layer, await _apply(containerd, layer, prepared.mounts, where), diff_id, where)
        commit = snapshots_pb2.CommitSnapshotRequest(
            snapshotter=SNAPSHOTTER,
            name=chain_id,
            key=key,
            labels={"containerd.io/snapshot.ref": chain_id},
        )
        await containerd.call("snapshots.v1.Snapshots/Commit", commit, Empty)
    except RpcError as error:
        await remove_snapshot(containerd, key)
        if error.code is not Code.ALREADY_EXISTS:  # made meanwhile by another pull
            raise
    except UserError:
        await remove_snapshot(containerd, key)
        raise


async def _apply(
    containerd: Containerd, layer: Descriptor, mounts: Iterable[mount_pb2.Mount], where: str
) -> str:
    """Unpack a layer; the digest of what it holds. UserError when the disk has no room for that."""
    request = diff_pb2.ApplyRequest(diff=layer, mounts=mounts)
    timeout = UNPACK_TIMEOUT + layer.size / MIN_UNPACK_RATE
    applied: list[str] = []
    failures: list[RpcError] = []

    async def apply() -> None:
        try:
            reply = await containerd.call("diff.v1.Diff/Apply", request, diff_pb2.ApplyResponse, timeout)
            applied.append(reply.applied.digest)
        except RpcError as error:
            failures.append(error)
        nursery.cancel_scope.cancel()

    folder = _find_folder(request.mounts)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(apply)
        while measure_room(folder):  # noqa: ASYNC110 - disks send no events
            await trio.sleep(POLL_INTERVAL)
        nursery.cancel_scope.cancel()
    if applied:
        return applied[0]
    if failures and not _is_full(failures[0], folder):
        raise failures[0]
    raise UserError(
        f"layer {layer.digest}, {layer.size} bytes, takes more when unpacked than {folder} has room for",
        where=where,
        hint="remove images, use a larger disk, or don't trust the image",
    )


def _is_full(error: RpcError, folder: str) -> bool:
    """Whether the disk had no more room: the program that unpacks looks at it, too, and may have ended first.

    What the file system had set aside for the file that was being written is free again by now.
    """
    return _NO_SPACE in error.message or (_ENDED in error.message and measure_room(folder) < RESERVE)


def _find_folder(mounts: Iterable[mount_pb2.Mount]) -> str:
    """Where a layer is unpacked to: the upper folder of an overlay, or what is bound without one."""
    for mount in mounts:
        uppers = [option.removeprefix(_UPPER) for option in mount.options if option.startswith(_UPPER)]
        if uppers or mount.type == "bind":
            return next(iter(uppers), mount.source)
    return ""


def _check_digest(layer: Descriptor, unpacked: str, expected: str, where: str) -> None:
    if unpacked != expected:
        raise UserError(f"layer {layer.digest} unpacks to {unpacked}, not {expected}", where=where)


async def remove_snapshot(containerd: Containerd, key: str) -> None:
    """Remove a snapshot, if it is there."""
    request = snapshots_pb2.RemoveSnapshotRequest(snapshotter=SNAPSHOTTER, key=key)
    await containerd.remove("snapshots.v1.Snapshots/Remove", request)
