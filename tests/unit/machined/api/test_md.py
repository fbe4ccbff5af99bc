"""What MDService destroys, and what it refuses with which words."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.disks.raid.memory_mdadm import MemoryMdadm

from talos.api.definitions import block_pb2
from talos.api.machine.md_pb2 import MDDestroyRequest
from talos.api.rpc import Code, RpcError
from talos.machined.api import md
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.system.block.wipe import WipeMethod

SERVICE = "machine.MDService"
LINK = "/dev/disk/by-id/md-name-talos:data"


@dataclass
class World:
    """An array of two disks, beside a third; what was done to them in its order."""

    caller: Any
    memory: MemoryMdadm
    erased: list[str] = field(default_factory=list[str])
    busy: str = ""

    @property
    def capture(self) -> Any:
        return self.memory.run

    async def fill(self) -> None:
        state = self.caller.node.state
        for name in ("vdb", "vdc"):
            await put(state, kinds.DISK, name, block_pb2.DiskSpec(dev_path=f"/dev/{name}"))
            await put(state, kinds.BLOCK_DEVICE, name, block_pb2.DeviceSpec())
        array = block_pb2.DiskSpec(dev_path="/dev/md0", symlinks=[LINK])
        await put(state, kinds.DISK, "md0", array)
        await put(state, kinds.BLOCK_DEVICE, "md0", block_pb2.DeviceSpec(secondaries=["vdb", "vdc"]))

    def erase(self, path: str, method: WipeMethod) -> None:
        assert method is WipeMethod.FAST
        if path == self.busy:
            raise OSError(16, "Device or resource busy")
        self.memory.calls.append(f"erase {path}")

    async def destroy(self, device: str) -> None:
        await self.fill()
        await self.caller.with_node(processes=self).call("Destroy", MDDestroyRequest(device=device), SERVICE)

    async def fail(self, device: str) -> RpcError:
        with pytest.raises(RpcError) as caught:
            await self.destroy(device)
        return caught.value


@pytest.fixture
def world(metal: Any, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(caller=metal, memory=MemoryMdadm())
    monkeypatch.setattr(md, "wipe_device", world.erase)
    return world


@pytest.mark.parametrize("device", ["/dev/md0", LINK])
async def test_an_array_is_erased_and_stopped_then_its_members(
    world: World, autojump_clock: Any, device: str
) -> None:
    del autojump_clock
    await world.destroy(device)
    assert world.memory.calls == ["erase /dev/md0", "--stop /dev/md0", "erase /dev/vdb", "erase /dev/vdc"]
    assert (await world.caller.node.state.get(*ids.MD_REFRESH_REQUEST)).spec.request == 1


@pytest.mark.parametrize(
    ("device", "code", "words"),
    [
        ("", Code.INVALID_ARGUMENT, "device must be set"),
        ("md0", Code.INVALID_ARGUMENT, "device must be a full /dev path"),
        ("/dev/vdb", Code.INVALID_ARGUMENT, "md: invalid argument: /dev/vdb is no array"),
        ("/dev/md7", Code.NOT_FOUND, "md: array not found"),
        ("/dev/../etc", Code.NOT_FOUND, "md: array not found"),
    ],
)
async def test_what_is_no_array(world: World, device: str, code: Code, words: str) -> None:
    error = await world.fail(device)
    assert (error.code, words in str(error)) == (code, True)
    assert not world.memory.calls


async def test_what_a_volume_uses_is_not_touched(world: World) -> None:
    volume = block_pb2.VolumeStatusSpec(location="/dev/md0")
    await put(world.caller.node.state, kinds.VOLUME_STATUS, "u-data", volume)
    error = await world.fail("/dev/md0")
    assert error.code is Code.FAILED_PRECONDITION
    assert 'md: resource in use: blockdevice "md0" is in use by volume "u-data"' in str(error)
    assert not world.memory.calls


async def test_what_is_made_of_it_is_not_touched(world: World) -> None:
    mapped = block_pb2.DeviceSpec(secondaries=["md0"])
    await put(world.caller.node.state, kinds.BLOCK_DEVICE, "dm-0", mapped)
    error = await world.fail("/dev/md0")
    assert 'md: resource in use: blockdevice "md0" is in use by blockdevice "dm-0"' in str(error)
    assert not world.memory.calls


async def test_what_the_kernel_uses_is_not_stopped(world: World) -> None:
    world.busy = "/dev/md0"
    error = await world.fail("/dev/md0")
    assert error.code is Code.FAILED_PRECONDITION
    assert "md: resource in use: /dev/md0 is not erased: Device or resource busy" in str(error)
    assert not world.memory.calls


async def test_a_program_that_fails_is_one_line(world: World) -> None:
    world.memory.failing["--stop"] = "Cannot get exclusive access to /dev/md0"
    error = await world.fail("/dev/md0")
    assert error.code is Code.INTERNAL
    assert "md operation failed: /dev/md0: mdadm --stop ended with 1: Cannot get exclusive access" in str(
        error
    )


async def test_a_container_has_no_arrays(caller: Any) -> None:
    with pytest.raises(RpcError, match="method is not supported in container mode"):
        await caller.call("Destroy", MDDestroyRequest(device="/dev/md0"), SERVICE)
