"""Groups end with the boot; what can't, holds nothing back."""

from collections.abc import Sequence

import trio
from trio.testing import MockClock

from talos.api.definitions import storage_pb2
from talos.disks.lvm.deactivate import DEACTIVATE_TIMEOUT, deactivate_groups
from talos.resource import kinds
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.system.block.lvm import Lvm
from talos.system.logging import Log
from talos.system.process import Finished

from .memory_lvm import MemoryLvm


async def make_state(**counts: str) -> MemoryState:
    """A State with groups, by the number of their logical volumes."""
    state = MemoryState()
    for name, count in counts.items():
        spec = storage_pb2.LVMVolumeGroupStatusSpec(name=name, lv_count=count)
        await put(state, kinds.LVM_VOLUME_GROUP_STATUS, name, spec)
    return state


async def test_groups_with_volumes_are_deactivated() -> None:
    memory, lines = MemoryLvm(), list[str]()
    state = await make_state(a="1", b="2", empty="0")
    theirs = storage_pb2.LVMVolumeGroupStatusSpec(name="theirs", lv_count="1", exported="exported")
    await put(state, kinds.LVM_VOLUME_GROUP_STATUS, "theirs", theirs)
    await deactivate_groups(state, memory.lvm, Log(write=lines.append))
    assert (memory.changes, lines) == (["vgchange -an a", "vgchange -an b"], [])


async def test_a_machine_without_lvm_does_not_start_it() -> None:
    memory = MemoryLvm()
    await deactivate_groups(await make_state(), memory.lvm, Log(write=lambda _: None))
    assert memory.calls == []


async def test_one_in_use_is_logged_and_holds_back_no_other() -> None:
    memory, lines = MemoryLvm(failing={"vgchange": "Logical volume a/x in use."}), list[str]()
    await deactivate_groups(await make_state(a="1", b="1"), memory.lvm, Log(write=lines.append))
    assert memory.changes == ["vgchange -an a", "vgchange -an b"]
    assert "LVM: a: lvm vgchange ended with 5: Logical volume a/x in use." in lines[0]


async def test_a_program_that_hangs_does_not_hold_back_the_end(autojump_clock: MockClock) -> None:
    del autojump_clock
    lines = list[str]()

    async def run(argv: Sequence[str], stdin: bytes) -> Finished:
        await trio.sleep_forever()
        raise AssertionError

    began = trio.current_time()
    await deactivate_groups(await make_state(a="1"), Lvm(run, lambda _: None), Log(write=lines.append))
    assert trio.current_time() - began == DEACTIVATE_TIMEOUT
    assert "groups are not deactivated after 10 s" in lines[0]
