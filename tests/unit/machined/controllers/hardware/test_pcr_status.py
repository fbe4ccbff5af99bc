"""PCRStatus: it is there while volumes are opened; then the TPM is locked."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import override

import trio
from tests.unit.machined.controllers.block.tpms import MemoryTpm
from trio.testing import wait_all_tasks_blocked

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.machined.controllers.hardware.pcr_status import PCRStatusController
from talos.resource import kinds
from talos.resource.builtin import register_builtin
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.errors import UserError
from talos.system.logging import Log

READY, FAILED = enums.VOLUME_PHASE_READY, enums.VOLUME_PHASE_FAILED


@asynccontextmanager
async def run(tpm: MemoryTpm, lines: list[str]) -> AsyncGenerator[MemoryState]:
    state = MemoryState()
    await register_builtin(state)
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, [PCRStatusController(tpm, Log(write=lines.append))])
        yield state
        nursery.cancel_scope.cancel()


async def set_volume(
    state: MemoryState,
    name: str,
    phase: enums.BlockVolumePhase,
    kind: enums.BlockVolumeType = enums.VOLUME_TYPE_PARTITION,
) -> None:
    await put(state, kinds.VOLUME_CONFIG, name, block_pb2.VolumeConfigSpec(type=kind))
    await put(state, kinds.VOLUME_STATUS, name, block_pb2.VolumeStatusSpec(phase=phase))


async def list_shown(state: MemoryState) -> list[str]:
    await wait_all_tasks_blocked()
    return [status.id for status in await state.list(kinds.PCR_STATUS)]


async def test_the_tpm_is_locked_when_all_volumes_are_open() -> None:
    tpm, lines = MemoryTpm(), list[str]()
    async with run(tpm, lines) as state:
        await set_volume(state, "STATE", READY)
        await set_volume(state, "u-data", FAILED)
        await set_volume(state, "u-folder", FAILED, enums.VOLUME_TYPE_DIRECTORY)
        assert await list_shown(state) == ["11"]
        await set_volume(state, "EPHEMERAL", READY)
        assert await list_shown(state) == ["11"], "a volume that fails may be mended by the config"
        assert not tpm.is_locked
        await set_volume(state, "u-data", READY)
        assert await list_shown(state) == []
        assert tpm.is_locked
        await set_volume(state, "u-new", FAILED)
        assert await list_shown(state) == [], "until the next boot"
    assert any("the TPM is locked" in line for line in lines)


async def test_without_a_measured_image_there_is_none() -> None:
    tpm = MemoryTpm(is_measured=False)
    async with run(tpm, []) as state:
        for name in ("STATE", "EPHEMERAL"):
            await set_volume(state, name, READY)
        assert await list_shown(state) == []
    assert not tpm.is_locked


class FailingTpm(MemoryTpm):
    """One that does not answer."""

    @override
    async def begin(self) -> bool:
        await trio.lowlevel.checkpoint()
        raise UserError("no answer in 60 s", where="the TPM")


async def test_a_tpm_that_fails_is_logged_once() -> None:
    lines: list[str] = []
    async with run(FailingTpm(), lines) as state:
        await set_volume(state, "STATE", READY)
        assert await list_shown(state) == []
    (line,) = lines
    assert "PCR 11 is left as it is" in line
    assert "the TPM: no answer in 60 s" in line
