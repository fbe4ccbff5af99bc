"""What a cluster might leave behind on this machine."""

from pathlib import Path

from talos.provision.host.cgroups import mounted_hierarchies
from talos.provision.host.leftovers import mounts_below
from talos.provision.host.names import cluster_group, host_link
from talos.provision.store import ClusterFolder
from talos.system.block import loop


def remains(folder: ClusterFolder) -> list[str]:
    """Everything of a cluster that is still there.

    Network namespaces live by the processes and mounts that hold them: those are looked for.
    """
    group = cluster_group(folder)
    groups = [hierarchy.path.joinpath(*group) for hierarchy in mounted_hierarchies()]
    found = [f"control group {path}" for path in groups if path.exists()]
    if Path("/sys/class/net", host_link(folder)).exists():
        found.append(f"interface {host_link(folder)}")
    mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    found.extend(f"mount {point}" for point in mounts_below(folder.path, mountinfo))
    found.extend(f"loop device {device}" for device in loop.attached_below(folder.path))
    found.extend(_processes(str(folder.path), "/".join(group)))
    if folder.path.exists():
        found.append(f"folder {folder.path}")
    return found


def _processes(path: str, group: str) -> list[str]:
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            cmdline = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            groups = (entry / "cgroup").read_text(encoding="utf-8")
        except OSError:
            continue
        if path in cmdline or group in groups:
            found.append(f"process {entry.name} {cmdline}")
    return found
