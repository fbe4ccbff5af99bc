"""timed's estimate of what the clock lacks, beside chrony's as client of the same server for a minute.

Server and clients run in one network namespace and read the same clock, which none of them sets: the true
offset is zero, and what either client reports is its error. Both query every two seconds.
"""

import json
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trio
from tests.bench.report import Table
from tests.harness.namespace import run_in_namespace
from tests.harness.peers import find_peer
from tests.unit.timed.chrony import chrony

from talos.process.run import Daemon
from talos.system.clock import KernelClock
from talos.system.logging import Log
from talos.timed.ntp.select import select
from talos.timed.ntp.servers import Servers, open_plain

SERVER = "127.0.0.1"
DURATION, POLL = 60.0, 1
"""How long both query, and log2 of the seconds between two questions."""
SYNC_TIMEOUT = DURATION + 60
# Fields of `chronyc -c tracking`, as chronyc.c prints them: what the clock lacks, root delay and dispersion.
_CORRECTION, _ROOT_DELAY, _ROOT_DISPERSION, _FIELDS = 4, 10, 11, 14  # seconds
_MICRO = 1e6


@dataclass(slots=True)
class Estimates:
    """What one client reports at each question, in seconds."""

    offsets: list[float] = field(default_factory=list[float])
    distances: list[float] = field(default_factory=list[float])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChronyClient:
    """A chronyd that follows the server and sets nothing."""

    socket: Path

    async def read(self) -> tuple[float, float] | None:
        """Offset and root distance in seconds; None until it has chosen the server."""
        argv = [*find_peer("chronyc"), "-h", str(self.socket), "-c", "tracking"]
        result = await trio.run_process(argv, capture_stdout=True, stderr=subprocess.STDOUT, check=False)
        fields = result.stdout.decode().strip().split(",")
        if result.returncode or len(fields) != _FIELDS or fields[-1] == "Not synchronised":
            return None
        delay, dispersion = float(fields[_ROOT_DELAY]), float(fields[_ROOT_DISPERSION])
        return float(fields[_CORRECTION]), delay / 2 + dispersion


async def start_client(folder: Path, nursery: trio.Nursery) -> ChronyClient:
    """Start it, in a folder that only root may enter: it refuses to open its socket in another."""
    await trio.Path(folder).mkdir(mode=0o700)
    client = ChronyClient(socket=folder / "socket")
    settings = (
        f"server {SERVER} minpoll {POLL} maxpoll {POLL} iburst",
        "port 0",
        "cmdport 0",
        f"bindcmdaddress {client.socket}",
        f"pidfile {folder}/pid",
        "",
    )
    config = folder / "chrony.conf"
    await trio.Path(config).write_text("\n".join(settings))
    argv = [*find_peer("chronyd"), "-x", "-d", "-u", "root", "-f", str(config)]
    await nursery.start(partial(trio.run_process, argv, capture_stdout=True, capture_stderr=True))
    return client


async def compare(daemon: Daemon, folder: Path) -> tuple[Estimates, Estimates]:
    """What timed and chrony report of the same server in the same minute."""
    ours, theirs = Estimates(), Estimates()
    servers = Servers([SERVER], open_plain, KernelClock().now, Log(write=lambda _: None))
    async with chrony(daemon, folder), trio.open_nursery() as nursery:
        client = await start_client(folder / "client", nursery)
        end = trio.current_time() + DURATION
        while trio.current_time() < end:
            samples = await servers.query()
            estimate = select(samples)
            if estimate is not None:
                ours.offsets.append(estimate.offset)
                ours.distances.append(samples[0].distance)
            found = await client.read()
            if found is not None:
                theirs.offsets.append(found[0])
                theirs.distances.append(found[1])
            await trio.sleep(2**POLL)
        nursery.cancel_scope.cancel()
    return ours, theirs


def describe(found: Sequence[float]) -> tuple[str, str, str, str]:
    """The last, the median and the most of what was sent, without its sign, and its standard deviation."""
    sizes = [abs(value) * _MICRO for value in found]
    figures = (sizes[-1], statistics.median(sizes), max(sizes), statistics.pstdev(found) * _MICRO)
    last, median, maximum, deviation = (f"{figure:.1f}" for figure in figures)
    return last, median, maximum, deviation


@pytest.mark.root
def test_time() -> None:
    columns = ("last", "median", "max", "deviation", "estimates")
    table = Table(f"Estimates of a clock's offset from the same server for {DURATION:g} s, us", columns)
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report"

        async def run(daemon: Daemon) -> None:
            ours, theirs = await compare(daemon, Path(folder))
            lists = [ours.offsets, ours.distances, theirs.offsets, theirs.distances]
            await trio.Path(report).write_text(json.dumps(lists))

        run_in_namespace(run, timeout=SYNC_TIMEOUT)
        found: list[list[float]] = json.loads(report.read_text())
    names = ("timed, offset", "timed, root distance", "chrony, offset", "chrony, root distance")
    for name, values in zip(names, found, strict=True):
        assert values, f"{name}: there is none"
        table.add(name, *describe(values), str(len(values)))
    table.notes.append("all read one clock, which none sets: an offset that is not zero is an error")
    table.show()
