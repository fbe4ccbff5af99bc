"""What greedy clients cost a node: memory of its processes, and another caller's time.

The attackers run on the same processors as the node, so that the times are upper bounds.
"""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import multiprocessing
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from tests.bench.attacks import ATTACKS, VERSION, Attack, Target
from tests.bench.machine import NOT_BOOTSTRAPPED, Measured, run_nodes
from tests.bench.report import Budget, Table
from tests.harness.cluster import check_services, eventually
from tests.harness.credentials import API_PORT, authority_of, credentials_of, resident

DAEMONS = ("apid", "routerd", "trustd")
ATTACK_DURATION = 12.0  # seconds
"""How long each attack lasts."""

MEMORY = Budget(limit=128, unit="MiB")
GROWTH = Budget(limit=20, unit="MiB")
P99 = Budget(limit=1000, unit="ms")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Measured]:
    with run_nodes(tmp_path) as measured:
        measured.settle()
        yield measured


def _attack(attack: Attack, target: Target) -> None:
    asyncio.run(attack(target))  # pyright: ignore[reportArgumentType] - they are coroutine functions


@contextmanager
def under_attack(attack: Attack, target: Target) -> Generator[None]:
    """An attack in a process of its own."""
    process = multiprocessing.get_context("spawn").Process(target=_attack, args=(attack, target))
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def pids_of(node: Measured) -> dict[str, int]:
    """The daemons that are attacked."""
    found = node.cluster.processes()
    return {name: found[name][0] for name in DAEMONS}


def call_honestly(channel: grpc.Channel, seconds: float) -> list[float]:
    """Milliseconds of calls, one after another; one that fails took all of its time."""
    took: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.perf_counter()
        try:
            channel.unary_unary(VERSION)(b"", timeout=10)
            took.append((time.perf_counter() - begin) * 1e3)
        except grpc.RpcError:
            took.append(10_000.0)
        time.sleep(0.05)
    return sorted(took)


def test_pressure(node: Measured) -> None:
    address = node.cluster.addresses[0]
    authority = authority_of(node.cluster)
    target = Target(host=address, authority=authority.pem)
    table = Table(
        "Under attack: memory in MiB, times of a new honest caller in ms",
        ("apid", "routerd", "trustd", "PID 1 grew", "p50", "p99", "replaced"),
    )
    first = node.cluster.nodes[0].pid
    for attack in ATTACKS:
        before, began = pids_of(node), resident(first)
        maximum: dict[str, float] = dict.fromkeys(DAEMONS, 0.0)
        grown = 0.0
        took: list[float] = []
        with under_attack(attack, target):
            end = time.monotonic() + ATTACK_DURATION
            while time.monotonic() < end:
                # A connection of its own each time: a new client must get in.
                with grpc.secure_channel(
                    f"{address}:{API_PORT}",
                    credentials_of(authority, "os:admin"),
                    (("grpc.use_local_subchannel_pool", 1),),
                ) as channel:
                    took += call_honestly(channel, 0.5)
                for name, pid in before.items():
                    if Path(f"/proc/{pid}").exists():
                        maximum[name] = max(maximum[name], resident(pid))
                grown = max(grown, resident(first) - began)
        eventually(
            "all services are well", lambda: check_services(node.cluster, address, without=NOT_BOOTSTRAPPED)
        )
        took.sort()
        after = pids_of(node)
        replaced = [name for name in DAEMONS if after[name] != before[name]]
        p99 = took[int(len(took) * 0.99)]
        table.add(
            " ".join(attack.__name__.split("_")),
            *(f"{maximum[name]:.0f}" for name in DAEMONS),
            f"{grown:.0f}",
            f"{took[len(took) // 2]:.0f}",
            f"{p99:.0f}",
            ", ".join(replaced) or "none",
            budget=", ".join(
                (
                    f"apid {MEMORY.describe(maximum['apid'])}",
                    f"PID 1 {GROWTH.describe(grown)}",
                    f"p99 {P99.describe(p99)}",
                )
            ),
        )
    table.show()
