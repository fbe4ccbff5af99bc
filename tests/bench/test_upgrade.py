"""An upgrade of one node as a timeline, how long its API is down, what it writes; and three nodes in turn."""

import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.report import MEBIBYTE, MEGABYTE, Table
from tests.bench.timeline import Milestone, draw
from tests.harness.cluster import Cluster, running_cluster
from tests.harness.credentials import API_PORT
from tests.harness.releases import Releases

from talos.provision.cluster import NodeInfo

PROBE_INTERVAL = 0.02  # seconds
STAGED = "read back, boot once"
MILESTONES = (
    ("release pulled", r": pulled "),
    ("signature, every byte of it", r"is complete and signed"),
    ("slot written", r"reading slot . back"),
    (STAGED, r"which the next reboot tries"),
    ("services stopped", r"sequence: reboot action: STOP"),
    ("the new system answers", r"post check passed"),
    ("self-check, default", r"is the default from now on"),
)
"""What ends with which line of talosctl."""


def follow_upgrade(
    cluster: Cluster, image: str, *nodes: NodeInfo, note: Callable[[str], None] = lambda _: None
) -> list[Milestone]:
    """Upgrade nodes; when each milestone was reached, which is also noted at that moment."""
    addresses = ",".join(str(node.address) for node in nodes)
    command = cluster.command("-n", addresses, "upgrade", "--image", image)
    found: dict[str, float] = {}
    began = time.monotonic()
    with subprocess.Popen(
        command, env=cluster.environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as client:
        assert client.stderr is not None
        lines: list[str] = []
        for line in client.stderr:
            lines.append(line)
            for name, pattern in MILESTONES:
                if name not in found and re.search(pattern, line):
                    found[name] = time.monotonic() - began
                    note(name)
    assert client.returncode == 0, "".join(lines)
    return [Milestone(name, at) for name, at in found.items()]


@contextmanager
def watch_port(address: str) -> Generator[list[float]]:
    """The seconds for which connections to a node's API were refused, each time that they were."""
    gaps: list[float] = []
    is_over = threading.Event()

    def sample() -> None:
        last, was_unavailable = time.monotonic(), False
        while not is_over.is_set():
            try:
                with socket.create_connection((address, API_PORT), 0.2):
                    if was_unavailable:
                        gaps.append(time.monotonic() - last)
                    last, was_unavailable = time.monotonic(), False
            except OSError:
                was_unavailable = True
            time.sleep(PROBE_INTERVAL)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield gaps
    finally:
        is_over.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class Process:
    """A process's memory now and at most, and what it wrote to disks; bytes."""

    memory: int
    peak: int
    written: int


def measure(pid: int) -> Process:
    """PID 1 of a node. What its children wrote counts once it has reaped them."""
    status, io = Path(f"/proc/{pid}/status"), Path(f"/proc/{pid}/io")
    memory, peak = (1024 * _read_field(status, name) for name in ("VmRSS", "VmHWM"))
    return Process(memory, peak, _read_field(io, "write_bytes"))


def _read_field(path: Path, name: str) -> int:
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise ProcessLookupError(f"{path} has no {name}")


def test_upgrade(tmp_path: Path) -> None:
    releases = Releases(tmp_path / "releases")
    with running_cluster(
        tmp_path / "clusters", controlplanes=3, images=releases.images, stamp=releases.stamp()
    ) as cluster:
        image, node = releases.make("v1.15.1"), cluster.nodes[2]
        Path(f"/proc/{node.pid}/clear_refs").write_text("5")  # the peak begins anew
        before, staged = measure(node.pid), list[Process]()

        def note(name: str) -> None:
            if name == STAGED:
                staged.append(measure(node.pid))

        with watch_port(str(node.address)) as gaps:
            milestones = follow_upgrade(cluster, image, node, note=note)
        print(f"\nAn upgrade of one node\n{draw(milestones)}")  # noqa: T201 - the figure
        table = Table("The node meanwhile", ("figure",))
        table.add("API away, s", f"{max(gaps):.1f}")
        table.add("written by PID 1, MB", f"{(staged[0].written - before.written) / MEGABYTE:.1f}")
        table.add("memory of PID 1 before, MiB", f"{before.memory / MEBIBYTE:.1f}")
        table.add("memory of PID 1 at most, MiB", f"{staged[0].peak / MEBIBYTE:.1f}")
        table.show()
        began = time.monotonic()
        follow_upgrade(cluster, releases.make("v1.15.2"), *cluster.nodes)
        three = Table("Three control plane nodes, one after the other", ("s",))
        three.add("talosctl upgrade, until the last verdict", f"{time.monotonic() - began:.1f}")
        three.show()
