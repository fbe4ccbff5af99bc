"""A node that runs out of room, and one that is restarted."""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.availability import sampling_nodes
from tests.harness.cluster import Cluster, check_services, eventually
from tests.node.test_debug import debug

from talos.provision.host.cgroups import mounted_hierarchies

MEMORY = 768 << 20
"""Bytes for a node whose memory is to run out; it needs half of that."""
KEPT = ("podruntime/etcd", "podruntime/runtime", "system/apid", "system/routerd")


def fill(path: str) -> None:
    """Write until nothing more fits."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        size = 1 << 30
        while size >= 4096:
            try:
                os.posix_fallocate(descriptor, os.fstat(descriptor).st_size, size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2
    finally:
        os.close(descriptor)


def test_a_full_var_stops_nothing(cluster: Cluster) -> None:
    file = str(cluster.root() / "var/filler")
    fill(file)
    try:
        assert os.statvfs(cluster.root() / "var").f_bavail < 16
        check_services(cluster, cluster.addresses[0])
        cluster.talosctl("logs", "machined", "--tail", "1")
        (pid,) = cluster.processes()["timed"]
        os.kill(pid, 9)
        eventually("all services are well", lambda: check_services(cluster, cluster.addresses[0]))
    finally:
        Path(file).unlink()
    check_services(cluster, cluster.addresses[0])


def find_group(cluster: Cluster) -> tuple[Path, bool]:
    """The node's group that counts its memory, and whether it is of version 2."""
    mounted = mounted_hierarchies()
    hierarchy = next((one for one in mounted if "memory" in one.controllers), None)
    controller, hierarchy = (
        ("memory", hierarchy) if hierarchy else ("", next(o for o in mounted if o.unified))
    )
    lines = Path(f"/proc/{cluster.nodes[0].pid}/cgroup").read_text().splitlines()
    [init] = [
        path for _, names, path in (line.split(":", 2) for line in lines) if controller in names.split(",")
    ]
    return hierarchy.path / Path(init).parent.relative_to("/"), hierarchy.unified


@contextmanager
def limited_memory(cluster: Cluster) -> Generator[None]:
    """The node has MEMORY for as long as the context is open."""
    group, is_unified = find_group(cluster)
    limit = group / ("memory.max" if is_unified else "memory.limit_in_bytes")
    limit.write_text(str(MEMORY))
    try:
        yield
    finally:
        limit.write_text("max" if is_unified else "-1")


def read_kept(cluster: Cluster) -> dict[str, str]:
    """The pids in the groups of what has to go on."""
    group, _ = find_group(cluster)
    return {name: (group / name / "cgroup.procs").read_text() for name in KEPT}


def test_a_storm_of_programs_that_take_all_memory_ends_alone(cluster: Cluster) -> None:
    init, kept = cluster.nodes[0].pid, read_kept(cluster)
    storm = "for number in 1 2 3 4; do tail /dev/zero & done; wait; echo over"
    with limited_memory(cluster), sampling_nodes(cluster.nodes) as samples:
        # None of the four ends but by the kernel.
        assert debug(cluster, storm).stdout.endswith("over\n")
    assert not samples.largest_outage(), samples.describe()
    assert (cluster.nodes[0].pid, read_kept(cluster)) == (init, kept)
    check_services(cluster, cluster.addresses[0])


def test_a_reboot_is_one_and_keeps_what_has_to_be_kept(cluster: Cluster) -> None:
    path = "/proc/sys/kernel/random/boot_id"
    boot, machine = (cluster.talosctl("read", name).stdout for name in (path, "/etc/machine-id"))
    (cluster.root() / "var/lib/kept").write_text("kept")
    before = cluster.nodes[0].pid
    cluster.talosctl("reboot", "--wait=false")

    def is_back() -> None:
        assert cluster.nodes[0].pid not in (0, before)
        check_services(cluster, cluster.addresses[0])

    eventually("the node is back", is_back)
    assert cluster.talosctl("read", path).stdout != boot
    assert cluster.talosctl("read", "/etc/machine-id").stdout == machine
    assert (cluster.root() / "var/lib/kept").read_text() == "kept"


def test_a_reboot_is_waited_for(cluster: Cluster) -> None:
    before = cluster.nodes[0].pid
    cluster.talosctl("reboot", "--timeout", "1m")
    assert cluster.nodes[0].pid not in (0, before)
    eventually("all services are well", lambda: check_services(cluster, cluster.addresses[0]))
