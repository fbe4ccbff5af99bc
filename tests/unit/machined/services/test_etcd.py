"""Leaving etcd before a reset."""

from contextlib import AbstractAsyncContextManager

import pytest

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.api.resource import config_pb2
from talos.api.rpc import DuplexTransport, RpcError
from talos.machined.node import etcd_data
from talos.machined.services.etcd import check_leave
from talos.resource import ids, kinds
from talos.resource.memory.state import MemoryState
from talos.resource.resource import make_resource


def connect(socket: str) -> AbstractAsyncContextManager[DuplexTransport]:
    raise AssertionError(socket)


@pytest.mark.parametrize(
    ("kind", "phase", "is_refused"),
    [
        (config_pb2.CONTROL_PLANE, enums.VOLUME_PHASE_FAILED, True),
        (config_pb2.CONTROL_PLANE, enums.VOLUME_PHASE_WAITING, True),
        (config_pb2.CONTROL_PLANE, enums.VOLUME_PHASE_READY, False),
        (config_pb2.WORKER, enums.VOLUME_PHASE_FAILED, False),
        (None, enums.VOLUME_PHASE_WAITING, False),
    ],
)
async def test_a_member_whose_data_is_not_there_is_not_left_behind(
    kind: config_pb2.MachineType | None,
    phase: enums.BlockVolumePhase,
    is_refused: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(etcd_data, "has_data", lambda: False)
    state = MemoryState()
    if kind is not None:
        spec = config_pb2.MachineTypeSpec(machine_type=kind)
        await state.create(make_resource(*ids.MACHINE_TYPE, spec))
    volume = block_pb2.VolumeStatusSpec(phase=phase)
    await state.create(make_resource(kinds.VOLUME_STATUS, "ETCD", volume))
    if is_refused:
        with pytest.raises(RpcError, match="talosctl etcd remove-member on another node removes it"):
            await check_leave(connect, state)
    else:
        await check_leave(connect, state)
