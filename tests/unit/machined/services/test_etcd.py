"""Leaving etcd before a reset."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import pytest
import trio

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.api.resource import config_pb2
from talos.api.rpc import Code, RpcError
from talos.machined.node import etcd_data
from talos.machined.services.etcd import check_leave, find_lost_volume, has_member
from talos.resource import ids, kinds
from talos.resource.changes import destroy_if_present
from talos.resource.memory.state import MemoryState
from talos.resource.resource import make_resource

REMEDY = "talosctl etcd remove-member on another node removes it"


class Clusterd:
    """Refuses for a reason, if it has one."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.refusal = refusal
        self.calls: list[str] = []

    @asynccontextmanager
    async def connect(self, path: str) -> AsyncGenerator[Any]:
        assert path.endswith("/clusterd.sock")
        yield self

    async def unary(self, method: str, request: Any, reply: Any) -> Any:
        del reply
        await trio.lowlevel.checkpoint()
        self.calls.append(method.rpartition("/")[2])
        if self.refusal is not None:
            raise self.refusal
        return request


async def make_state(
    phase: enums.BlockVolumePhase,
    kind: config_pb2.MachineType | None = config_pb2.CONTROL_PLANE,
    volume: str = "ETCD",
) -> MemoryState:
    state = MemoryState()
    if kind is not None:
        spec = config_pb2.MachineTypeSpec(machine_type=kind)
        await state.create(make_resource(*ids.MACHINE_TYPE, spec))
    for name in ("EPHEMERAL", "ETCD", "LOG"):
        status = block_pb2.VolumeStatusSpec(phase=phase if name == volume else enums.VOLUME_PHASE_READY)
        await state.create(make_resource(kinds.VOLUME_STATUS, name, status))
    return state


@pytest.mark.parametrize(
    ("kind", "phase", "calls"),
    [
        (config_pb2.CONTROL_PLANE, enums.VOLUME_PHASE_FAILED, ["CheckNoMember"]),
        (config_pb2.CONTROL_PLANE, enums.VOLUME_PHASE_WAITING, ["CheckNoMember"]),
        (config_pb2.CONTROL_PLANE, enums.VOLUME_PHASE_READY, []),
        (config_pb2.WORKER, enums.VOLUME_PHASE_FAILED, []),
        (None, enums.VOLUME_PHASE_WAITING, []),
    ],
)
async def test_a_node_without_a_member_is_reset(
    kind: config_pb2.MachineType | None,
    phase: enums.BlockVolumePhase,
    calls: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(etcd_data, "has_data", lambda: False)
    clusterd, state = Clusterd(), await make_state(phase, kind)
    await check_leave(clusterd.connect, state)
    assert clusterd.calls == calls
    assert not await has_member(clusterd.connect, state)


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (RpcError(Code.FAILED_PRECONDITION, "etcd has the member 7 of this node"), "has the member 7"),
        (RpcError(Code.UNAVAILABLE, "no etcd member answers: none is known"), "none is known"),
        (RpcError(Code.DEADLINE_EXCEEDED, ""), "DEADLINE_EXCEEDED"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
    ],
)
async def test_a_member_whose_data_is_not_there_is_not_left_behind(
    refusal: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_data, "has_data", lambda: False)
    state = await make_state(enums.VOLUME_PHASE_FAILED)
    for check in (check_leave, has_member):
        with pytest.raises(RpcError, match=rf"{reason}.*\): {REMEDY}") as refused:
            await check(Clusterd(refusal).connect, state)
        assert refused.value.code is Code.FAILED_PRECONDITION


@pytest.mark.parametrize(("volume", "is_refused"), [("EPHEMERAL", True), ("ETCD", True), ("LOG", False)])
async def test_a_folder_is_lost_with_the_volume_that_it_is_in(
    volume: str, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_data, "has_data", lambda: False)
    clusterd = Clusterd(RpcError(Code.UNAVAILABLE, "no etcd member answers"))
    state = await make_state(enums.VOLUME_PHASE_FAILED, volume=volume)
    text = f"volume {volume} with its data can't be used"
    with pytest.raises(RpcError, match=text) if is_refused else nullcontext():
        await check_leave(clusterd.connect, state)
    assert clusterd.calls == (["CheckNoMember"] if is_refused else [])


async def test_a_volume_that_is_not_known_yet_is_not_there() -> None:
    state = await make_state(enums.VOLUME_PHASE_READY)
    assert await find_lost_volume(state) == ""
    await destroy_if_present(state, kinds.VOLUME_STATUS, "EPHEMERAL")
    assert await find_lost_volume(state) == "EPHEMERAL"


async def test_a_member_leaves_if_the_cluster_lets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_data, "has_data", lambda: True)
    clusterd, state = Clusterd(), await make_state(enums.VOLUME_PHASE_READY)
    await check_leave(clusterd.connect, state)
    assert clusterd.calls == ["CheckLeave"]
    assert await has_member(clusterd.connect, state)
