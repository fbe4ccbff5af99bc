"""Whether this machine can carry a cluster of any kind, checked before anything is made."""

import os
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from talos.system.errors import UserError

INOTIFY_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
INOTIFY_NEED = 10
"""Instances of inotify(7) that root's programs of a node with Kubernetes hold: the kubelet seven of them."""


def check_root() -> None:
    """Namespaces, mounts and devices need root."""
    if os.geteuid() != 0:
        raise UserError(
            "only root can start the nodes of a cluster",
            where="talosctl cluster",
            hint="run it again with: sudo -E",
        )


def tool_path() -> str:
    """Where tools are looked for: users' PATHs often lack the system directories."""
    return os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"))


def check_subnet(subnet: IPv4Network, routes: str) -> None:
    """The subnet must not hide anything this machine reaches now; ``routes`` is /proc/net/route."""
    for line in routes.splitlines()[1:]:
        link, destination, _, _, _, _, _, mask, *_ = line.split()
        route = IPv4Network((_address(destination), str(_address(mask))))
        if route.prefixlen > 0 and route.overlaps(subnet):
            owner = "another local cluster" if link.startswith("talos-") else "this machine"
            raise UserError(
                f"{subnet} overlaps {route}, which {owner} reaches through {link}",
                where="--subnet",
                hint=f"take a free one, such as {suggest_subnet(subnet, routes)}",
            )


def check_inotify(nodes: int, used: int, limit: int) -> None:
    """Each user may have so many instances of inotify; a kubelet that gets none ends at its start."""
    needed, free = INOTIFY_NEED * nodes, max(limit - used, 0)
    if needed > free:
        raise UserError(
            f"Kubernetes on {nodes} nodes takes {needed} instances of inotify: {free} of {limit} are free",
            where="this machine",
            hint="sysctl -w fs.inotify.max_user_instances=8192",
        )


def count_inotify(processes: Path = Path("/proc")) -> int:
    """The instances of inotify that this user's processes hold."""
    count = 0
    for process in processes.glob("[0-9]*"):
        try:
            if process.stat().st_uid == os.getuid():
                count += sum(str(fd.readlink()) == "anon_inode:inotify" for fd in (process / "fd").iterdir())
        except OSError:
            continue  # it has ended
    return count


def suggest_subnet(subnet: IPv4Network, routes: str) -> IPv4Network:
    """A subnet of the same size that overlaps no route."""
    taken: list[IPv4Network] = []
    for line in routes.splitlines()[1:]:
        _, destination, _, _, _, _, _, mask, *_ = line.split()
        taken.append(IPv4Network((_address(destination), str(_address(mask)))))
    prefix = max(subnet.prefixlen, 16)
    for second in range(5, 255):
        candidate = IPv4Network((IPv4Address(f"10.{second}.0.0"), prefix))
        if not any(route.prefixlen > 0 and route.overlaps(candidate) for route in taken):
            return candidate
    return IPv4Network((IPv4Address("172.20.0.0"), prefix))


def _address(text: str) -> IPv4Address:
    # The kernel prints the address as a number in the machine's byte order.
    return IPv4Address(int(text, 16).to_bytes(4, "little"))
