"""Whatever a cluster may have left on the machine, found by name and by record, and removed.

Nothing here relies on an orderly end of the launcher: everything may be done twice, and
nothing is touched that is not surely the cluster's.
"""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from talos.provision.host import cgroups
from talos.provision.host.names import cluster_group, host_link
from talos.provision.host.processes import ProcessId, from_data, wait_until_empty
from talos.provision.store import ClusterFolder, read_record
from talos.system import kernel
from talos.system.block import loop

# Killing a whole pid namespace with containers in it takes a moment on a slow machine.
KILL_TIMEOUT = 30.0  # seconds

type Report = Callable[[str], None]


def launcher_of(folder: ClusterFolder) -> ProcessId | None:
    """The cluster's launcher, when it is alive."""
    process = from_data(read_record(folder).get("launcher"))
    return process if process is not None and process.is_alive() else None


def stop_launcher(folder: ClusterFolder) -> bool:
    """Have the launcher end and take everything with it; false when there was none or it did not."""
    process = launcher_of(folder)
    if process is None:
        return False
    process.send(signal.SIGQUIT)
    if process.wait(KILL_TIMEOUT):
        return True
    process.send(signal.SIGKILL)
    process.wait(KILL_TIMEOUT)
    return False


def remove_leftovers(folder: ClusterFolder, report: Report) -> None:
    """Remove processes, control groups, the interface, mounts and loop devices, in this order."""
    _kill_processes(folder, report)
    hierarchies = cgroups.mounted_hierarchies()
    for stuck in cgroups.remove(hierarchies, cluster_group(folder)):
        report(f"control group {stuck} can't be removed: something is still in it")
    cgroups.remove_if_empty(hierarchies, (cgroups.TOP,))
    link = host_link(folder)
    if Path("/sys/class/net", link).exists():
        from talos.provision.host.links import delete_host_link

        if delete_host_link(link):
            report(f"interface {link} removed")
    for mount_point in reversed(mounts_below(folder.path, Path("/proc/self/mountinfo").read_text("utf-8"))):
        kernel.umount(mount_point, kernel.MNT_DETACH)
        report(f"{mount_point} unmounted")
    for device in loop.attached_below(folder.path):
        loop.detach(device)
        report(f"{device} detached")


def _kill_processes(folder: ClusterFolder, report: Report) -> None:
    record = read_record(folder)
    pids: set[int] = set()
    for data in (record.get("launcher"), *record.get("nodes", {}).values()):
        process = from_data(data)
        if process is not None and process.send(signal.SIGKILL):
            pids.add(process.pid)
    pids |= cgroups.kill(cgroups.mounted_hierarchies(), cluster_group(folder))
    if pids:
        report(f"{len(pids)} processes killed")
    for pid in wait_until_empty(pids, KILL_TIMEOUT):
        report(f"process {pid} does not end")


def mounts_below(directory: Path, mountinfo: str) -> list[str]:
    """Mount points in a directory, in the order they were made."""
    found: list[str] = []
    for line in mountinfo.splitlines():
        # Spaces and the like are written as octal escapes.
        point = line.split(" ")[4].encode().decode("unicode_escape")
        if Path(point).is_relative_to(directory):
            found.append(point)
    return found


def remove_folder(folder: ClusterFolder) -> bool:
    """Remove the cluster's folder; false when there was none."""
    if not folder.path.exists():
        return False
    shutil.rmtree(folder.path)
    return True
