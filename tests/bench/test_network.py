"""How long networkd takes for a large config, and whether the work grows with it or faster.

The controllers run in a network namespace of this machine. A peer in the same run is ``ip -batch``, which is
given the commands for the same links, addresses and routes: it neither looks at what is there nor reports.
"""

import shutil
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trio
import trio.testing
from tests.bench.report import Table
from tests.harness.namespace import run_in_namespace, unshare_network

from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.networkd.main import make_controllers
from talos.process.run import Daemon
from talos.resource import ids
from talos.resource.changes import modify
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.net.kernel_links import open_links

SIZES = (10, 25, 50)
"""Virtual cables, each of two links, four addresses and ten routes: the last is 100, 200 and 500."""
ADDRESSES, ROUTES = 4, 10
WINDOW = 5.0


def make_config(cables: int) -> str:
    documents = ["version: v1alpha1\nmachine:\n  type: worker\n"]
    for number in range(cables):
        addresses = "".join(f"- {{address: 10.{number}.{index}.1/24}}\n" for index in range(ADDRESSES))
        routes = "".join(
            f"- {{destination: 172.{16 + index}.{number}.0/24, gateway: 10.{number}.0.2}}\n"
            for index in range(ROUTES)
        )
        documents.append(
            f"apiVersion: v1alpha1\nkind: VethConfig\nname: a{number}\npeer: {{name: b{number}}}\n"
            f"addresses:\n{addresses}routes:\n{routes}"
        )
    return "---\n".join(documents)


def make_commands(cables: int) -> str:
    lines: list[str] = []
    for number in range(cables):
        lines.append(f"link add a{number} type veth peer name b{number}")
        lines += [f"address add 10.{number}.{index}.1/24 dev a{number}" for index in range(ADDRESSES)]
        lines += [f"link set a{number} up", f"link set b{number} up"]
        lines += [
            f"route add 172.{16 + index}.{number}.0/24 via 10.{number}.0.2 metric 1024"
            for index in range(ROUTES)
        ]
    return "\n".join(lines) + "\n"


async def converge(daemon: Daemon, cables: int) -> tuple[float, float, float]:
    """Seconds to converge, processor time for it, and the share of a processor at rest."""
    state, lines = MemoryState(), list[str]()
    async with open_links() as links, trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, make_controllers(links, Log(write=lines.append)))
        await trio.testing.wait_all_tasks_blocked(0.1)
        began, used = time.monotonic(), time.process_time()
        spec = MachineConfigSpec(yaml_marshalled=make_config(cables).encode())
        await modify(state, *ids.MACHINE_CONFIG, lambda old: old.CopyFrom(spec))
        while True:
            static = [route for route in await links.routes() if route.priority == 1024]
            if len(static) == cables * ROUTES:
                break
            await trio.sleep(0.01)
        seconds = time.monotonic() - began
        # What is looked at once more afterwards belongs to it.
        await trio.testing.wait_all_tasks_blocked(0.3)
        busy = time.process_time() - used
        used = time.process_time()
        await trio.sleep(WINDOW)
        rest = (time.process_time() - used) / WINDOW
        nursery.cancel_scope.cancel()
    return seconds, busy, rest


def measure_ip(cables: int) -> float:
    """Seconds that ``ip`` takes."""
    program = shutil.which("ip")
    assert program, "there is no ip on this machine"
    commands = make_commands(cables).encode()
    argv = [program, "-batch", "-"]
    began = time.monotonic()
    subprocess.run(argv, input=commands, check=True, preexec_fn=unshare_network)
    return time.monotonic() - began


@pytest.mark.root
def test_network() -> None:
    table = Table(
        "networkd and a large config",
        ("converged, s", "processor, s", "per link, ms", "rest, %", "ip -batch, s"),
    )
    for cables in SIZES:
        with TemporaryDirectory() as folder:
            report = Path(folder) / "report"

            async def run(daemon: Daemon, cables: int = cables, report: Path = report) -> None:
                found = await converge(daemon, cables)
                await trio.Path(report).write_text(" ".join(map(str, found)))

            run_in_namespace(run)
            seconds, busy, rest = map(float, report.read_text().split())
        table.add(
            f"{2 * cables} links, {cables * ADDRESSES} addresses, {cables * ROUTES} routes",
            f"{seconds:.2f}",
            f"{busy:.2f}",
            f"{1000 * busy / (2 * cables):.0f}",
            f"{100 * rest:.2f}",
            f"{measure_ip(cables):.2f}",
        )
    table.notes.append("the work is linear where the time per link stays the same")
    table.show()
