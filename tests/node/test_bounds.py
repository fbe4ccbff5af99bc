"""What one request may cost: the node refuses oversized ones without growing."""

# gRPC's type stubs know no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import time
from contextlib import suppress

import grpc
import pytest
from tests.harness.cluster import Cluster
from tests.harness.credentials import API_PORT, authority_of, credentials_of, resident

from talos.api.cosi import resource_pb2, state_pb2

LIST = "/cosi.resource.State/List"
VERSION = "/machine.MachineService/Version"
ENDS = {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT}
GROWTH = 20.0
"""MiB that PID 1 may grow by."""


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("a" * 30_000_000, id="30 MB"),
        pytest.param(f"[{'a' * 900_000}]", id="a set of 900 kB"),
        pytest.param("a" * 200_000, id="within the size of a request"),
        pytest.param("(?:.{1,19}){10}!", id="the largest automaton"),
    ],
)
def test_patterns_cost_the_node_nothing(cluster: Cluster, pattern: str) -> None:
    target = f"{cluster.addresses[0]}:{API_PORT}"
    request = state_pb2.ListRequest(
        namespace="meta",
        type="ResourceDefinitions.meta.cosi.dev",
        options=state_pb2.ListOptions(id_query=resource_pb2.IDQuery(regexp=pattern)),
    ).SerializeToString()
    before = resident(cluster.nodes[0].pid)
    options = (("grpc.max_send_message_length", -1),)
    credentials = credentials_of(authority_of(cluster), "os:reader")
    with grpc.secure_channel(target, credentials, options) as channel:
        for _ in range(10):
            call = channel.unary_stream(LIST)(request, timeout=20)
            with suppress(grpc.RpcError):
                assert not list(call)
            assert call.code() in ENDS
            assert len(call.details() or "") < 1024
            begin = time.monotonic()
            channel.unary_unary(VERSION)(b"", timeout=20)
            assert time.monotonic() - begin < 5
    assert resident(cluster.nodes[0].pid) - before < GROWTH
