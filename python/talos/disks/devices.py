"""What udevd has found of the machine's devices, as controllers and others read it."""

from typing import Protocol

from google.protobuf.message import Message

from talos.api.definitions.block_pb2 import DiskSpec
from talos.resource import ids, kinds
from talos.resource.kind import Kind
from talos.resource.resource import Resource
from talos.resource.state import NotFoundError


class Resources(Protocol):
    """The State, or a controller's view of it."""

    async def get[S: Message](self, kind: Kind[S], id: str) -> Resource[S]:
        """One resource; NotFoundError when there is none."""
        ...

    async def list[S: Message](self, kind: Kind[S]) -> list[Resource[S]]:
        """All resources of a kind."""
        ...


async def are_devices_ready(resources: Resources) -> bool:
    """Whether all devices were found that the machine starts with; before, one that is missing may come."""
    try:
        return (await resources.get(*ids.DEVICES_STATUS)).spec.ready
    except NotFoundError:
        return False


async def read_disk_specs(resources: Resources) -> dict[str, DiskSpec]:
    """Every disk by its id."""
    return {disk.id: disk.spec for disk in await resources.list(kinds.DISK)}
