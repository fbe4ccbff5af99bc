"""What one request, or one fallen daemon, may cost: the node refuses what is too much without growing."""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import json
import os
import sys
import time
from contextlib import suppress

import grpc
import pytest
from tests.harness.cluster import Cluster
from tests.harness.credentials import API_PORT, authority_of, credentials_of, resident

from talos.api.cosi import resource_pb2, state_pb2
from talos.process.daemons import TIMED
from talos.process.grants import load_grants
from talos.resource import kinds
from talos.system.process import run_command

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


FLOOD = """
import asyncio, json, os, sys
import yaml  # needed later, when this folder may be closed to the uid
from talos.api.definitions.time_pb2 import NTPStatusSpec
from talos.process.run import host
from talos.resource import kinds
from talos.resource.remote.state import RemoteState
from talos.resource.resource import make_resource
from talos.resource.state import StateError
from talos.rpc.channel import open_channel
from talos.system.logging import Log

root, uid, path, owner = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
directory = os.open(root, os.O_PATH | os.O_DIRECTORY)
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
found = os.open(path.lstrip("/"), os.O_PATH, dir_fd=directory)
refusals = []

async def create(state, id, size):
    resource = make_resource(kinds.NTP_STATUS, id, NTPStatusSpec(), labels={"large": "x" * size})
    try:
        await state.create(resource, owner=owner)
    except StateError as error:
        refusals.append(str(error))
        return False
    return True

async def main(daemon):
    async with open_channel(daemon, f"/proc/self/fd/{found}") as transport:
        state = RemoteState(transport)
        for size in (20_000_000, 1_000_000):
            await create(state, "large", size)
        count = 0
        while await create(state, f"flood{count}", 200_000):
            count += 1
        for number in range(count):
            await state.destroy(kinds.NTP_STATUS, f"flood{number}", owner=owner)
        print(json.dumps({"refusals": refusals, "count": count}))

asyncio.run(host(main, "test", Log(write=lambda line: None)))
"""


def test_what_a_fallen_daemon_writes_is_bounded(cluster: Cluster) -> None:
    """All that timed may write, in large pieces, again and again: PID 1 grows by the bound only."""
    (owner,) = load_grants()["timed"].owners[kinds.NTP_STATUS.type]
    program = [sys.executable, "-c", FLOOD, str(cluster.root()), str(TIMED.uid), TIMED.state_socket, owner]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    before = resident(cluster.nodes[0].pid)
    for _ in range(5):
        result = json.loads(run_command(program, env=environment, timeout=120).stdout)
        first, second, last = result["refusals"]
        assert "larger than max" in first
        assert "larger than max" in second
        assert "bytes at most" in last
        assert 0.9 * TIMED.max_bytes < result["count"] * 200_000 <= TIMED.max_bytes
    assert cluster.services()["machined"]["HEALTH"] == "OK"
    # The resources, their history, and what the allocator keeps.
    assert resident(cluster.nodes[0].pid) - before < 3 * TIMED.max_bytes / (1 << 20)
