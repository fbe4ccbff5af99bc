"""Health checks of a control plane node."""

from typing import Any

import pytest
import trio
from google.protobuf.duration_pb2 import Duration

from talos.api.cluster import cluster_pb2
from talos.api.resource import config_pb2
from talos.api.rpc import Code, RpcError
from talos.resource import ids
from talos.resource.changes import put

SERVICE = "cluster.ClusterService"


async def run(caller: Any, frames: list[str], *, seconds: int = 5) -> None:
    async def send(frame: cluster_pb2.HealthCheckProgress) -> None:
        await trio.lowlevel.checkpoint()
        frames.append(frame.message)

    request = cluster_pb2.HealthCheckRequest(wait_timeout=Duration(seconds=seconds))
    await caller.handler("HealthCheck", SERVICE)(request, None, send)


@pytest.mark.parametrize("seconds", [5, 2**62])
async def test_a_cluster_without_members(caller: Any, seconds: int) -> None:
    kind = config_pb2.MachineTypeSpec(machine_type=config_pb2.CONTROL_PLANE)
    await put(caller.node.state, *ids.MACHINE_TYPE, kind)
    with pytest.raises(RpcError, match="name the nodes, or configure discovery") as caught:
        await run(caller, [], seconds=seconds)
    assert caught.value.code is Code.FAILED_PRECONDITION


@pytest.mark.parametrize(
    ("kind", "text"), [(config_pb2.WORKER, "only available on control plane"), (None, "type is not set")]
)
async def test_only_control_planes_check(caller: Any, kind: Any, text: str) -> None:
    if kind is not None:
        await put(caller.node.state, *ids.MACHINE_TYPE, config_pb2.MachineTypeSpec(machine_type=kind))
    with pytest.raises(RpcError, match=text) as caught:
        await run(caller, [])
    assert caught.value.code is Code.UNIMPLEMENTED
