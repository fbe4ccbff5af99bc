"""An upgrade of one node as a timeline, how long its API is away, what it writes; and three nodes in turn."""

import re
import socket
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.bench.report import MEBIBYTE, MEGABYTE, Table
from tests.bench.timeline import Milestone, draw
from tests.harness.cluster import Cluster, running_cluster
from tests.harness.credentials import API_PORT
from tests.harness.releases import Releases

from talos.provision.cluster import NodeInfo

PATIENCE = 300.0
PROBE_INTERVAL = 0.02
MILESTONES = (
    ("release pulled", r": pulled "),
    ("signature, every byte of it", r"is complete and signed"),
    ("slot written", r"reading slot . back"),
    ("read back, boot once", r"which the next reboot tries"),
    ("services stopped", r"sequence: reboot action: STOP"),
    ("the new system answers", r"post check passed"),
    ("self-check, default", r"is the default from now on"),
)
"""What ends with which line of talosctl."""


def follow_upgrade(cluster: Cluster, image: str, *nodes: NodeInfo) -> list[Milestone]:
    """Upgrade nodes; when each line of talosctl came."""
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
                if re.search(pattern, line):
                    found.setdefault(name, time.monotonic() - began)
    assert client.returncode == 0, "".join(lines)
    return [Milestone(name, at) for name, at in found.items()]


@contextmanager
def watch_port(address: str) -> Generator[list[float]]:
    """The seconds for which connections to a node's API were refused, each time that they were."""
    gaps: list[float] = []
    is_over = threading.Event()

    def look() -> None:
        last, was_away = time.monotonic(), False
        while not is_over.is_set():
            try:
                with socket.create_connection((address, API_PORT), 0.2):
                    if was_away:
                        gaps.append(time.monotonic() - last)
                    last, was_away = time.monotonic(), False
            except OSError:
                was_away = True
            time.sleep(PROBE_INTERVAL)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield gaps
    finally:
        is_over.set()
        thread.join()


@contextmanager
def watch_init(node: NodeInfo) -> Generator[dict[str, int]]:
    """The bytes that PID 1 wrote to disks, and its largest memory, as long as it lives."""
    process = Path(f"/proc/{node.pid}")
    found = {"before": _read_field(process / "status", "VmRSS") * 1024}
    (process / "clear_refs").write_text("5")  # the peak begins anew
    start = _read_field(process / "io", "write_bytes")
    is_over = threading.Event()

    def look() -> None:
        with suppress(OSError):
            while not is_over.is_set():
                found["written"] = _read_field(process / "io", "write_bytes") - start
                found["peak"] = _read_field(process / "status", "VmHWM") * 1024
                time.sleep(PROBE_INTERVAL)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()


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
        with watch_port(str(node.address)) as gaps, watch_init(node) as init:
            milestones = follow_upgrade(cluster, image, node)
        print(f"\nAn upgrade of one node\n{draw(milestones)}")  # noqa: T201 - the figure
        table = Table("The node meanwhile", ("figure",))
        table.add("API away, s", f"{max(gaps):.1f}")
        table.add("written by PID 1, MB", f"{init['written'] / MEGABYTE:.1f}")
        table.add("memory of PID 1 before, MiB", f"{init['before'] / MEBIBYTE:.1f}")
        table.add("memory of PID 1 at most, MiB", f"{init['peak'] / MEBIBYTE:.1f}")
        table.show()
        began = time.monotonic()
        follow_upgrade(cluster, releases.make("v1.15.2"), *cluster.nodes)
        three = Table("Three control plane nodes, one after the other", ("s",))
        three.add("talosctl upgrade, until the last verdict", f"{time.monotonic() - began:.1f}")
        three.show()
