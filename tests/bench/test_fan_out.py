"""One call to many nodes: `version` through one control plane node.

BENCH_NODES gives other numbers of nodes: fifty need 10 GiB of memory. All but one are workers: nothing but
containerd and our daemons runs on them.
"""

import os
import time
from pathlib import Path

import grpc
from tests.bench.machine import run_nodes
from tests.bench.report import Table, spread
from tests.harness.cluster import Cluster, eventually

from talos.api.machine import machine_pb2 as machine

SIZES = [int(size) for size in os.environ.get("BENCH_NODES", "3,10").split(",")]
CALLS = 30
COMMANDS = 5
TIMEOUT = 30.0  # seconds
CLUSTER_TIMEOUT = 300.0  # seconds
METHOD = "/machine.MachineService/Version"


def check_all_answer(cluster: Cluster) -> None:
    result = cluster.talosctl("-n", ",".join(cluster.addresses), "version", "--short", check=False)
    assert result.returncode == 0, result.stderr[-500:]


def measure_calls(channel: grpc.Channel, addresses: list[str]) -> list[float]:
    """Milliseconds of each call; every reply is complete."""
    call = channel.unary_unary(METHOD, response_deserializer=machine.VersionResponse.FromString)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    took: list[float] = []
    for _ in range(CALLS):
        began = time.perf_counter()
        reply: machine.VersionResponse = call(
            b"", metadata=tuple(("nodes", node) for node in addresses), timeout=TIMEOUT
        )
        took.append(1e3 * (time.perf_counter() - began))
        answered = [message.metadata.hostname for message in reply.messages if not message.metadata.error]
        assert len(answered) == len(addresses)
    return took


def measure_commands(cluster: Cluster) -> list[float]:
    """Milliseconds of each command."""
    took: list[float] = []
    for _ in range(COMMANDS):
        began = time.perf_counter()
        check_all_answer(cluster)
        took.append(1e3 * (time.perf_counter() - began))
    return took


def test_fan_out(tmp_path: Path) -> None:
    table = Table("One-to-many version, ms", ("min", "median", "max"))
    for size in SIZES:
        folder = tmp_path / str(size)
        folder.mkdir()
        with run_nodes(folder, workers=size - 1) as measured:
            cluster = measured.cluster
            eventually(
                "all nodes answer", lambda cluster=cluster: check_all_answer(cluster), seconds=CLUSTER_TIMEOUT
            )
            with grpc.secure_channel(measured.targets[0], measured.credentials) as channel:
                table.add(f"{size} nodes, one call", *spread(measure_calls(channel, cluster.addresses), 1))
            table.add(f"{size} nodes, the whole talosctl", *spread(measure_commands(cluster)))
    table.show()
