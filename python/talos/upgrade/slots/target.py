"""The system disk of a machine, as it is written to."""

from typing import TYPE_CHECKING

from talos.api.definitions import block_pb2
from talos.resource import ids, kinds
from talos.resource.state import NotFoundError, State
from talos.system.block.partitions import Run
from talos.system.errors import UserError
from talos.system.mounts import Mounts

if TYPE_CHECKING:
    from talos.system.block.target import BlockTarget

SECTOR = 512


class SystemTarget:
    """Finds it. What writes disks is loaded by need: seldom."""

    def __init__(self, state: State, run: Run, mounts: Mounts) -> None:
        self.state, self._run, self._mounts = state, run, mounts

    async def find_target(self) -> "BlockTarget":
        """The disk, to be written; UserError without one."""
        system = await self.find_disk()
        try:
            sector_size = (await self.state.get(kinds.DISK, system.disk_id)).spec.sector_size
        except NotFoundError:
            raise UserError("the system disk is gone", where=system.dev_path) from None
        return self.open_target(system.dev_path, sector_size or SECTOR)

    async def find_disk(self) -> block_pb2.SystemDiskSpec:
        """The disk as the State has it; UserError without one."""
        try:
            return (await self.state.get(*ids.SYSTEM_DISK)).spec
        except NotFoundError:
            raise UserError("there is no system disk", where="upgrade", hint="install it first") from None

    def open_target(self, path: str, sector_size: int) -> "BlockTarget":
        """A disk that a system is written to."""
        from talos.system.block.target import BlockTarget

        return BlockTarget(path, sector_size, self._run, self._mounts)
