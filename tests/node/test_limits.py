"""A node that runs out of room, and one that is restarted."""

import errno
import os
from pathlib import Path

from tests.harness.cluster import Cluster, check_services, eventually


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
