"""Whether this machine can carry the cluster, asked before anything is made."""

import os
import shutil
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from talos.provision.cluster import ClusterRequest
from talos.system.errors import UserError

# The first four bytes of a squashfs image, "hsqs".
SQUASHFS_MAGIC = b"hsqs"
# What is asked of the host beside the kernel, and the Debian package that has it.
TOOLS = {"mkfs.xfs": "xfsprogs"}


def check_machine(request: ClusterRequest) -> None:
    """All checks; each failure names the remedy."""
    check_root()
    check_tools()
    check_kernel()
    check_image(request.image)
    check_subnet(request.subnet, Path("/proc/net/route").read_text(encoding="ascii"))


def check_root() -> None:
    """Namespaces, mounts and devices need root."""
    if os.geteuid() != 0:
        raise UserError(
            "only root can start nodes as containers",
            where="talosctl cluster",
            hint="run it again with: sudo -E",
        )


def tool_path() -> str:
    """Where tools are looked for: users' PATHs often lack the system directories."""
    return os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"))


def check_tools() -> None:
    """The programs we run."""
    for tool, package in TOOLS.items():
        if shutil.which(tool, path=tool_path()) is None:
            raise UserError(f"{tool} is missing", where="this machine", hint=f"apt-get install {package}")


def check_kernel() -> None:
    """File systems and devices of the running kernel."""
    known = Path("/proc/filesystems").read_text(encoding="ascii").split()
    for name in ("squashfs", "xfs"):
        if name not in known and not _has_module(name):
            raise UserError(
                f"the kernel has no {name}", where="this machine", hint=f"load it: modprobe {name}"
            )
    if not Path("/dev/loop-control").exists():
        raise UserError(
            "the kernel has no loop devices", where="/dev/loop-control", hint="load them: modprobe loop"
        )


def _has_module(name: str) -> bool:
    # mount(2) loads a file system's module by itself.
    modules = Path("/lib/modules", os.uname().release, "modules.dep")
    return modules.is_file() and f"/{name}.ko" in modules.read_text(encoding="utf-8")


def check_image(image: Path) -> None:
    """The squashfs."""
    try:
        with image.open("rb") as file:
            magic = file.read(len(SQUASHFS_MAGIC))
    except OSError as error:
        raise UserError(
            f"the image can't be read: {error.strerror}", where=str(image), hint="build it: make image"
        ) from None
    if magic != SQUASHFS_MAGIC:
        raise UserError(
            f"this is no squashfs image: it begins with {magic!r}",
            where=str(image),
            hint="build it: make image",
        )


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
