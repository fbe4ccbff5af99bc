"""What a boot finds out from META, and what it goes on without."""

from types import SimpleNamespace
from typing import Any, cast

from trio.testing import MockClock

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.block_pb2 import VolumeStatusSpec
from talos.api.definitions.runtime_pb2 import DevicesStatusSpec
from talos.api.definitions.storage_pb2 import MDArrayStatusSpec
from talos.machined.boot.phases.initialize import reload_meta
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log


async def reload(state: MemoryState) -> list[str]:
    """The lines that a boot without a META logs."""
    lines: list[str] = []
    platform = SimpleNamespace(slots=None, has_kernel=False)
    machine = SimpleNamespace(
        crash=SimpleNamespace(last=None, reason=""),
        platform=platform,
        state=state,
        log=Log(write=lines.append),
    )
    await reload_meta(cast("Any", machine))
    return lines


async def test_what_meta_waits_for_is_logged(autojump_clock: MockClock) -> None:
    del autojump_clock
    state = MemoryState()
    [line] = await reload(state)
    assert "META is not known after 120 s" in line
    assert "not all disks are read (service udevd)" in line
    await put(state, *ids.DEVICES_STATUS, DevicesStatusSpec(ready=True))
    [line] = await reload(state)
    assert "volume META: it has not been located yet" in line
    await put(state, kinds.VOLUME_STATUS, "META", VolumeStatusSpec(phase=enums.VOLUME_PHASE_WAITING))
    [line] = await reload(state)
    assert "volume META: not mounted yet, it is waiting" in line
    array = MDArrayStatusSpec(status=enums.MD_ARRAY_PHASE_WAITING, error="it is not started")
    await put(state, kinds.MD_ARRAY_STATUS, "system", array)
    [line] = await reload(state)
    assert "RAID array system: it is not started" in line
