"""Images that nothing uses."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio
import trio.testing
from google.protobuf.empty_pb2 import Empty
from tests.unit.machined.controllers.running import running

from talos.api.containerd import containers_pb2, images_pb2
from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.api.containerd.images_pb2 import Image
from talos.api.definitions.v1alpha1_pb2 import ServiceSpec
from talos.machined.containerd.client import CRI_SOCKET, SYSTEM_SOCKET
from talos.machined.controllers.runtime.image_gc import (
    INSTANCES,
    INTERVAL,
    MIN_AGE,
    CRIImageGCController,
    find_unused,
)
from talos.resource import kinds
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

NOW = 1_000_000.0


def make_image(name: str, digest: str, *, age: float, updated: float | None = None) -> Image:
    image = Image(name=name, target=Descriptor(digest=digest))
    image.created_at.seconds = int(NOW - age)
    if updated is not None:
        image.updated_at.seconds = int(NOW - updated)
    return image


def test_old_images_that_nothing_uses() -> None:
    old, young = 2 * MIN_AGE, MIN_AGE / 2
    images = [
        make_image("docker.io/library/etcd:1", "used", age=old),
        make_image("docker.io/library/other-name:1", "used", age=old),
        make_image("example.org/old:1", "a", age=old),
        make_image("example.org/young:1", "b", age=young),
        make_image("example.org/pulled-again:1", "c", age=old, updated=young),
    ]
    assert find_unused(images, ["etcd:1", "not a reference", "example.org/not-there:1"], NOW) == [
        "example.org/old:1"
    ]
    assert find_unused([], [], NOW) == []


class Instance:
    """One of containerd, with an old image that nothing uses."""

    def __init__(self, name: str) -> None:
        self.images = [make_image(name, "a", age=NOW)]

    async def unary(self, method: str, request: Any, reply: Any, **_: Any) -> Any:
        match method.rpartition(".")[2]:
            case "Images/List":
                return images_pb2.ListImagesResponse(images=self.images)
            case "Images/Delete":
                self.images = [image for image in self.images if image.name != request.name]
                return Empty()
            case _:
                assert reply is containers_pb2.ListContainersResponse
                return reply()


@pytest.mark.parametrize("is_healthy", [True, False])
async def test_both_instances_are_cleaned(
    autojump_clock: trio.testing.MockClock, *, is_healthy: bool
) -> None:
    del autojump_clock
    instances = {CRI_SOCKET: Instance("example.org/etcd:1"), SYSTEM_SOCKET: Instance("debug:1")}
    state = MemoryState()
    for name in INSTANCES:
        await put(state, kinds.SERVICE, name, ServiceSpec(running=True, healthy=is_healthy))

    @asynccontextmanager
    async def connect(socket: str) -> AsyncGenerator[Any]:
        yield instances[socket]

    controller = CRIImageGCController(cast("Any", connect), Log(write=lambda _: None))
    async with running(state, controller):
        await trio.sleep(INTERVAL + 1)
    assert [bool(one.images) for one in instances.values()] == [not is_healthy] * 2
