"""containerd in memory: as much of it as pulling an image and running a container needs."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import trio
from google.protobuf.message import Message

from talos.api.containerd import (
    content_pb2,
    diff_pb2,
    images_pb2,
    leases_pb2,
    snapshots_pb2,
)
from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.api.rpc import Code, RpcError


@dataclass
class MemoryContainerd:
    """Its content, images, snapshots and leases. ``failing`` is a method that fails.

    Each call is a checkpoint, as over a socket: else a pull may end before it sees that it is cancelled.
    """

    content: dict[str, bytes] = field(default_factory=dict[str, bytes])
    labels: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    ingests: dict[str, bytes] = field(default_factory=dict[str, bytes])
    cancelled: set[str] = field(default_factory=set[str])
    """Writes that were cancelled: they may begin their ingest after it was aborted."""
    images: dict[str, Descriptor] = field(default_factory=dict[str, Descriptor])
    image_labels: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    snapshots: dict[str, str] = field(default_factory=dict[str, str])
    prepared: dict[str, str] = field(default_factory=dict[str, str])
    leases: set[str] = field(default_factory=set[str])
    applied: list[str] = field(default_factory=list[str])
    calls: list[str] = field(default_factory=list[str])
    failing: str = ""
    namespace: str = "system"
    unpack: Callable[[bytes], bytes] = lambda data: data

    @property
    def pending(self) -> list[str]:
        """What is there only while something is being made."""
        return [*self.leases, *self.ingests, *self.prepared]

    def check(self, method: str) -> str:
        name = method.rpartition(".")[2]
        self.calls.append(name)
        if name == self.failing:
            raise RpcError(Code.UNKNOWN, "no space left on device")
        return name

    async def unary(
        self, method: str, request: Any, reply: type[Message], *, metadata: Any = None, **_: Any
    ) -> Any:
        await trio.lowlevel.checkpoint()
        assert metadata["containerd-namespace"] == [self.namespace]
        handler = self.handlers[self.check(method)]
        return handler(self, request) or reply()

    @asynccontextmanager
    async def stream(
        self, method: str, request: Any, *_: Any, **__: Any
    ) -> AsyncGenerator[AsyncIterator[Any]]:
        assert self.check(method) == "Content/Read"
        data = self.find_content(request.digest)

        async def chunks() -> AsyncGenerator[content_pb2.ReadContentResponse]:
            yield content_pb2.ReadContentResponse(data=data)

        async with aclosing(chunks()) as found:
            yield found

    @asynccontextmanager
    async def duplex(
        self, method: str, *_: Any, metadata: Mapping[str, Sequence[str]] | None = None
    ) -> AsyncGenerator[Any]:
        self.check(method)
        assert metadata is not None
        assert set(metadata["containerd-lease"]) <= self.leases
        write = _Write(self)
        try:
            yield write
        finally:
            if not write.finished:
                self.cancelled.add(write.ref)

    def find_content(self, digest: str) -> bytes:
        if digest not in self.content:
            raise RpcError(Code.NOT_FOUND, f"content {digest}: not found")
        return self.content[digest]

    def _get_image(self, request: images_pb2.GetImageRequest) -> Message:
        if request.name not in self.images:
            raise RpcError(Code.NOT_FOUND, "image: not found")
        image = images_pb2.Image(name=request.name, target=self.images[request.name])
        return images_pb2.GetImageResponse(image=image)

    def _create_image(self, request: images_pb2.CreateImageRequest) -> None:
        if request.image.name in self.images:
            raise RpcError(Code.ALREADY_EXISTS, "image: already exists")
        self.images[request.image.name] = request.image.target
        self.image_labels[request.image.name] = dict(request.image.labels)

    def _update_image(self, request: images_pb2.UpdateImageRequest) -> None:
        self.images[request.image.name] = request.image.target
        self.image_labels[request.image.name] = dict(request.image.labels)

    def _update_content(self, request: content_pb2.UpdateRequest) -> None:
        self.find_content(request.info.digest)
        self.labels.setdefault(request.info.digest, {}).update(request.info.labels)

    def _abort(self, request: content_pb2.AbortRequest) -> None:
        if request.ref in self.cancelled or self.ingests.pop(request.ref, None) is None:
            raise RpcError(Code.NOT_FOUND, "ingest: not found")

    def _stat(self, request: snapshots_pb2.StatSnapshotRequest) -> None:
        if request.key not in self.snapshots:
            raise RpcError(Code.NOT_FOUND, "snapshot: not found")

    def _prepare(self, request: snapshots_pb2.PrepareSnapshotRequest) -> None:
        assert not request.parent or request.parent in self.snapshots
        self.prepared[request.key] = request.parent

    def _commit(self, request: snapshots_pb2.CommitSnapshotRequest) -> None:
        self.snapshots[request.name] = self.prepared.pop(request.key)

    def _remove(self, request: snapshots_pb2.RemoveSnapshotRequest) -> None:
        if self.prepared.pop(request.key, None) is None:
            raise RpcError(Code.NOT_FOUND, "snapshot: not found")

    def _apply(self, request: diff_pb2.ApplyRequest) -> Message:
        self.applied.append(request.diff.digest)
        data = self.unpack(self.find_content(request.diff.digest))
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        return diff_pb2.ApplyResponse(applied=Descriptor(digest=digest))

    def _lease(self, request: leases_pb2.CreateRequest) -> None:
        assert "containerd.io/gc.expire" in request.labels
        self.leases.add(request.id)

    def _release(self, request: leases_pb2.DeleteRequest) -> None:
        self.leases.remove(request.id)

    handlers = cast(
        "Mapping[str, Callable[[MemoryContainerd, Any], Message | None]]",
        {
            "Images/Get": _get_image,
            "Images/Create": _create_image,
            "Images/Update": _update_image,
            "Content/Update": _update_content,
            "Content/Abort": _abort,
            "Snapshots/Stat": _stat,
            "Snapshots/Prepare": _prepare,
            "Snapshots/Commit": _commit,
            "Snapshots/Remove": _remove,
            "Diff/Apply": _apply,
            "Leases/Create": _lease,
            "Leases/Delete": _release,
        },
    )


class _Write:
    """One stream of Content/Write."""

    def __init__(self, owner: MemoryContainerd) -> None:
        self.ref = ""
        self.finished = False
        self._owner = owner
        self._reply = content_pb2.WriteContentResponse()

    async def send(self, request: Message) -> None:
        await trio.lowlevel.checkpoint()
        owner, chunk = self._owner, cast("content_pb2.WriteContentRequest", request)
        if chunk.expected in owner.content:
            raise RpcError(Code.ALREADY_EXISTS, "content: already exists")
        self.ref = chunk.ref
        data = owner.ingests.setdefault(chunk.ref, b"")
        assert chunk.action == content_pb2.STAT or chunk.offset == len(data)
        data = owner.ingests[chunk.ref] = data + chunk.data
        if chunk.action == content_pb2.COMMIT:
            digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
            if (digest, len(data)) != (chunk.expected, chunk.total):
                raise RpcError(Code.FAILED_PRECONDITION, f"unexpected commit digest {digest}")
            owner.content[digest] = owner.ingests.pop(chunk.ref)
            owner.labels[digest] = dict(chunk.labels)
        self._reply = content_pb2.WriteContentResponse(offset=len(data))

    async def receive(self) -> content_pb2.WriteContentResponse:
        await trio.lowlevel.checkpoint()
        return self._reply

    async def finish(self) -> None:
        await trio.lowlevel.checkpoint()
        self.finished = True
