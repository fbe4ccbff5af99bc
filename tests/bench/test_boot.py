"""How long a node takes from the launcher's start to the first answer of its API."""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import socket
import time
from contextlib import suppress
from pathlib import Path

import grpc
from tests.bench.machine import API_PORT, Measured, run_nodes
from tests.bench.report import Budget, Table, spread

from talos.api.machine import machine_pb2

RUNS = 10
BUDGET = Budget(limit=500, unit="ms")
SERVICES_BUDGET = Budget(limit=1000, unit="ms")
BOOT_TIMEOUT = 60.0  # seconds
METHOD = "/machine.MachineService/Version"


def wait_for_port(address: str, end: float) -> None:
    """Until the port is open; refused and unreachable come at once, so frequent attempts are cheap."""
    while True:
        with suppress(OSError), socket.create_connection((address, API_PORT), 1):
            return
        assert time.monotonic() < end, f"{address} never opened its port"
        time.sleep(0.002)


def call_version(measured: Measured) -> str:
    """The node's tag, as soon as it answers."""
    end = time.monotonic() + BOOT_TIMEOUT
    wait_for_port(measured.cluster.addresses[0], end)
    while True:
        with grpc.secure_channel(measured.targets[0], measured.credentials) as channel:
            version = channel.unary_unary(METHOD)
            try:
                reply: bytes = version(b"", timeout=1)
            except grpc.RpcError:
                assert time.monotonic() < end, "the API never answered"
                continue
            return machine_pb2.VersionResponse.FromString(reply).messages[0].version.tag


def test_boot(tmp_path: Path) -> None:
    began: list[float] = []
    answered: list[float] = []
    used: list[float] = []
    up: list[float] = []
    for run in range(RUNS):
        directory = tmp_path / str(run)
        directory.mkdir()
        with run_nodes(directory) as measured:
            began.append(1000 * (time.monotonic() - measured.launched))
            call_version(measured)
            answered.append(1000 * (time.monotonic() - measured.launched))
            used.append(1000 * measured.cpu_seconds())
            measured.settle()
            up.append(1000 * (time.monotonic() - measured.launched))
    table = Table(f"Launch of a node, {RUNS} runs, from the launcher's start, ms", ("min", "median", "max"))
    table.add("PID 1 begins", *spread(began))
    table.add(
        "Version is answered, over TLS",
        *spread(answered),
        budget=BUDGET.describe(sorted(answered)[RUNS // 2]),
    )
    table.add("  processor time used until then", *spread(used))
    table.add(
        "every service is up, talosctl sees it",
        *spread(up),
        budget=SERVICES_BUDGET.describe(sorted(up)[RUNS // 2]),
    )
    table.show()
