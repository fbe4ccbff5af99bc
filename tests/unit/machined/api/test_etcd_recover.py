"""Uploading a snapshot of etcd."""

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import cast

import pytest
import trio

from talos.api.common.common_pb2 import Data
from talos.api.resource import config_pb2
from talos.api.rpc import Call, Code, RpcError
from talos.machined.api.etcd import recover
from talos.machined.node import etcd_data
from talos.machined.node.ports.node import Node
from talos.resource import ids
from talos.resource.changes import put

from .conftest import Caller

CALL = cast("Call", None)


@pytest.fixture(autouse=True)
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a snapshot is kept; etcd's user is there on a node only."""

    def give(path: Path) -> None:
        del path

    monkeypatch.setattr(etcd_data, "SNAPSHOT", tmp_path / "snapshot")
    monkeypatch.setattr(etcd_data, "chown_to_etcd", give)


async def make_node(caller: Caller) -> Node:
    """One of the control plane."""
    spec = config_pb2.MachineTypeSpec(machine_type=config_pb2.CONTROL_PLANE)
    await put(caller.node.state, *ids.MACHINE_TYPE, spec)
    return caller.node


async def send(*pieces: bytes, problem: Exception | None = None) -> AsyncGenerator[Data]:
    for piece in pieces:
        await trio.lowlevel.checkpoint()
        yield Data(bytes=piece)
    if problem is not None:
        raise problem


async def test_a_second_upload_at_the_same_time_is_refused(caller: Caller) -> None:
    node = await make_node(caller)
    uploading, begun, going_on = trio.Lock(), trio.Event(), trio.Event()

    async def slow() -> AsyncIterator[Data]:
        yield Data(bytes=b"first ")
        begun.set()
        await going_on.wait()
        yield Data(bytes=b"snapshot")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(recover, node, uploading, slow(), CALL)
        await begun.wait()
        with pytest.raises(RpcError, match="another snapshot is being uploaded") as refused:
            await recover(node, uploading, send(b"other"), CALL)
        assert refused.value.code is Code.FAILED_PRECONDITION
        going_on.set()
    assert etcd_data.SNAPSHOT.read_bytes() == b"first snapshot"


async def test_an_upload_that_breaks_off_leaves_what_was_there(caller: Caller) -> None:
    node, uploading = await make_node(caller), trio.Lock()
    await recover(node, uploading, send(b"whole"), CALL)
    with pytest.raises(RpcError, match="gone"):
        await recover(node, uploading, send(b"half", problem=RpcError(Code.CANCELLED, "gone")), CALL)
    assert etcd_data.SNAPSHOT.read_bytes() == b"whole"
    assert [*etcd_data.SNAPSHOT.parent.glob("*.part")] == []
