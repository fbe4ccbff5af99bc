"""What this machine has that a cluster might leave behind."""

from pathlib import Path

from talos.provision.container.cgroups import mounted_hierarchies


def snapshot() -> dict[str, set[str]]:
    """Everything of that kind, by kind."""
    mounts = {line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    loops = {str(path.parent.parent.name) for path in Path("/sys/block").glob("loop*/loop/backing_file")}
    groups: set[str] = set()
    for hierarchy in mounted_hierarchies():
        for directory, _, _ in hierarchy.path.walk():
            if "talos" in directory.parts:
                groups.add(str(directory))
    namespaces: set[str] = set()
    processes: set[str] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            namespaces.add(str((entry / "ns/net").readlink()))
        except OSError:
            continue
        if "launcher" in words or "/sbin/init" in words:
            processes.add(f"{entry.name} {words}")
    return {
        "mounts": mounts,
        "loop devices": loops,
        "control groups": groups,
        "network namespaces": namespaces,
        "interfaces": {path.name for path in Path("/sys/class/net").iterdir()},
        "processes": processes,
    }


def leftovers(before: dict[str, set[str]]) -> dict[str, set[str]]:
    """What is there now and was not before."""
    now = snapshot()
    return {kind: now[kind] - before[kind] for kind in now if now[kind] - before[kind]}
