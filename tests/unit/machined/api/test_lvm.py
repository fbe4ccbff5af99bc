"""What LVMService removes, and what it refuses with which words."""

from typing import Any

import pytest
from google.protobuf.message import Message
from tests.unit.disks.lvm.memory_lvm import Logical, MemoryLvm

from talos.api.machine import lvm_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.resource import ids

LOGICAL = pb.LVMServiceLogicalVolumeRemoveRequest
GROUP = pb.LVMServiceVolumeGroupRemoveRequest
PHYSICAL = pb.LVMServicePhysicalVolumeRemoveRequest


SERVICE = "machine.LVMService"
REFUSED = Code.FAILED_PRECONDITION


async def fail(caller: Any, method: str, request: Message) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await caller.call(method, request, SERVICE)
    return caught.value


class Processes:
    """Has lvm only."""

    def __init__(self, memory: MemoryLvm) -> None:
        self.capture = memory.run


def make_caller(metal: Any, **values: Any) -> tuple[Any, MemoryLvm]:
    memory = MemoryLvm(
        physical={"/dev/vdb": "pool", "/dev/vdc": "used", "/dev/vdd": ""},
        logical=[Logical(group="pool", name="a"), Logical(group="used", name="b", is_open=True)],
        **values,
    )
    return metal.with_node(processes=Processes(memory)), memory


@pytest.mark.parametrize(
    ("method", "request_", "change"),
    [
        (
            "LogicalVolumeRemove",
            LOGICAL(volume_group="pool", logical_volume="a"),
            "lvremove --yes pool/a",
        ),
        ("VolumeGroupRemove", GROUP(volume_group="pool"), "vgremove --yes pool"),
        ("PhysicalVolumeRemove", PHYSICAL(device="/dev/vdd"), "pvremove --yes /dev/vdd"),
        ("PhysicalVolumeRemove", PHYSICAL(device="vdd"), "pvremove --yes /dev/vdd"),
    ],
)
async def test_removal(metal: Any, autojump_clock: Any, method: str, request_: Message, change: str) -> None:
    del autojump_clock
    caller, memory = make_caller(metal)
    await caller.call(method, request_, SERVICE)
    assert memory.changes == [change]
    assert (await caller.node.state.get(*ids.LVM_REFRESH_REQUEST)).spec.request == 1


@pytest.mark.parametrize(
    ("method", "request_", "code", "words"),
    [
        (
            "LogicalVolumeRemove",
            LOGICAL(volume_group="pool"),
            Code.INVALID_ARGUMENT,
            "volume_group and logical_volume must be set",
        ),
        ("VolumeGroupRemove", GROUP(), Code.INVALID_ARGUMENT, "volume_group must be set"),
        ("PhysicalVolumeRemove", PHYSICAL(), Code.INVALID_ARGUMENT, "device must be set"),
        (
            "LogicalVolumeRemove",
            LOGICAL(volume_group="pool", logical_volume="--yes"),
            Code.NOT_FOUND,
            "lvm: resource not found",
        ),
        ("VolumeGroupRemove", GROUP(volume_group="-S all=1"), Code.NOT_FOUND, "lvm: resource not found"),
        ("PhysicalVolumeRemove", PHYSICAL(device="/dev/vda"), Code.NOT_FOUND, "lvm: resource not found"),
        (
            "LogicalVolumeRemove",
            LOGICAL(volume_group="used", logical_volume="b"),
            REFUSED,
            "lvm: logical volume is open: used/b",
        ),
        (
            "VolumeGroupRemove",
            GROUP(volume_group="used"),
            REFUSED,
            "lvm: logical volume is open",
        ),
        (
            "PhysicalVolumeRemove",
            PHYSICAL(device="/dev/vdb"),
            REFUSED,
            "lvm: resource in use",
        ),
    ],
)
async def test_what_is_refused(metal: Any, method: str, request_: Message, code: Code, words: str) -> None:
    caller, memory = make_caller(metal)
    error = await fail(caller, method, request_)
    assert error.code is code
    assert words in str(error)
    assert memory.changes == []


async def test_of_two_groups_with_one_name_none_is_removed(metal: Any) -> None:
    caller, memory = make_caller(metal, twice={"pool"})
    error = await fail(caller, "VolumeGroupRemove", GROUP(volume_group="pool"))
    assert 'lvm: 2 volume groups have the name "pool"' in str(error)
    assert memory.changes == []


async def test_a_program_that_fails_is_one_line(metal: Any) -> None:
    caller, _ = make_caller(metal, failing={"vgremove": "it is locked"})
    error = await fail(caller, "VolumeGroupRemove", GROUP(volume_group="pool"))
    assert error.code is Code.INTERNAL
    assert "lvm operation failed: pool: lvm vgremove ended with 5: it is locked" in str(error)


async def test_a_container_has_no_lvm(caller: Any) -> None:
    error = await fail(caller, "VolumeGroupRemove", GROUP(volume_group="pool"))
    assert "method is not supported in container mode" in str(error)
