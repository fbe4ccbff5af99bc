"""Kernel parameters under /proc/sys, and those under /sys."""

from pathlib import Path
from typing import Protocol, override


class Sysctls(Protocol):
    """Reading and writing kernel parameters by the key that resources use.

    ``proc.sys.net.ipv4.ip_forward`` is /proc/sys/net/ipv4/ip_forward, ``sys.`` stands for
    /sys. In ``proc.sys.net.ipv4.conf.eth0/1.forwarding`` the ``/`` is a dot of the file's
    name, as sysctl(8) has it.
    """

    def read(self, key: str) -> str:
        """The present value, stripped; FileNotFoundError when this kernel lacks it."""
        ...

    def write(self, key: str, value: str) -> None:
        """Set a value; FileNotFoundError, or OSError when the kernel refuses."""
        ...


def path_of(key: str, root: Path = Path("/")) -> Path:
    """The file behind a key."""
    return root.joinpath(*(part.replace("/", ".") for part in key.split(".")))


class KernelSysctls(Sysctls):
    """The parameters of the running kernel."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    @override
    def read(self, key: str) -> str:
        return path_of(key, self._root).read_text(encoding="utf-8").strip()

    @override
    def write(self, key: str, value: str) -> None:
        path = path_of(key, self._root)
        if not path.exists():  # opening for writing would fail with "permission denied"
            raise FileNotFoundError(2, "No such file or directory", str(path))
        path.write_text(value + "\n", encoding="utf-8")
