"""PCRStatus: it is there while volumes are opened; then the TPM is locked."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import override

import trio
from tests.unit.machined.controllers.block.tpms import MemoryTpm
from trio.testing import MockClock, wait_all_tasks_blocked

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.machined.controllers.hardware.pcr_status import (
    RETRY_BACKOFF,
    PCRStatusController,
)
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
    """One whose first requests get no answer."""

    def __init__(self, begin: int = 0, lock: int = 0) -> None:
        super().__init__()
        self._failures = {"begin": begin, "lock": lock}

    def _fail(self, request: str) -> None:
        self._failures[request] -= 1
        if self._failures[request] >= 0:
            raise UserError("no answer in 60 s", where="the TPM")

    @override
    async def begin(self) -> bool:
        self._fail("begin")
        return await super().begin()

    @override
    async def lock(self) -> None:
        self._fail("lock")
        await super().lock()


async def test_a_tpm_that_fails_is_tried_again_until_it_is_locked(autojump_clock: MockClock) -> None:
    tpm, lines = FailingTpm(begin=9, lock=3), list[str]()
    async with run(tpm, lines) as state:
        for name in ("STATE", "EPHEMERAL"):
            await set_volume(state, name, READY)
        assert await list_shown(state) == []
        assert not tpm.is_locked
        await trio.sleep(12 * RETRY_BACKOFF.limit)
        assert tpm.is_locked
        assert await list_shown(state) == []
        (failed, locked) = lines
        assert "PCR 11 can't be measured" in failed
        assert "the TPM: no answer in 60 s" in failed
        assert "the TPM is locked" in locked


async def test_a_tpm_that_fails_to_lock_is_shown_as_open(autojump_clock: MockClock) -> None:
    tpm = FailingTpm(lock=1)
    async with run(tpm, []) as state:
        await set_volume(state, "STATE", READY)
        assert await list_shown(state) == ["11"]
        await set_volume(state, "EPHEMERAL", READY)
        assert await list_shown(state) == ["11"]
        await trio.sleep(2 * RETRY_BACKOFF.initial)
        assert await list_shown(state) == []
    assert tpm.is_locked
