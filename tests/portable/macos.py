"""Runs a Python program as macOS would as far as Linux can show it: names that are Linux's alone are missing.

``python macos.py PROGRAM ARGUMENT…``; a program is what ``runpy.run_path`` takes.
"""

import importlib.abc
import os
import runpy
import select
import signal
import socket
import sys
import time
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from typing import Any, override

LINUX = {
    os: (
        "MFD_", "O_PATH", "O_TMPFILE", "O_DIRECT", "O_NOATIME", "SCHED_BATCH", "SCHED_IDLE", "CLONE_",
        "EFD_", "TFD_", "memfd_create", "eventfd", "timerfd_", "pidfd_open", "getrandom", "sched_",
        "unshare", "setns", "splice", "copy_file_range", "posix_fallocate", "posix_fadvise", "getxattr",
        "setxattr", "listxattr", "removexattr", "getresuid", "getresgid", "setresuid", "setresgid",
        "pipe2", "dup3", "RWF_",
    ),
    select: ("EPOLLEXCLUSIVE", "EPOLLWAKEUP"),
    signal: (
        "SIGPWR", "SIGSTKFLT", "SIGPOLL", "SIGRTM", "SIGCLD", "pidfd_send_signal", "sigtimedwait",
        "sigwaitinfo",
    ),
    socket: (
        "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG", "AF_CAN", "SOCK_CLOEXEC", "SOCK_NONBLOCK",
        "SO_PEERCRED", "SO_MARK", "SO_BINDTODEVICE", "SO_DOMAIN", "SO_PROTOCOL", "TCP_KEEPIDLE",
        "TCP_USER_TIMEOUT", "TCP_CORK", "TCP_QUICKACK", "TCP_DEFER_ACCEPT", "TCP_INFO", "MSG_NOSIGNAL",
        "MSG_CMSG_CLOEXEC", "MSG_ERRQUEUE", "NETLINK_", "PACKET_",
    ),
    time: ("CLOCK_BOOTTIME", "CLOCK_TAI"),
}  # fmt: skip
"""Beginnings of names, by the module that has them on Linux only.

epoll stays: trio takes it or kqueue, which Linux lacks.
"""
TCP_KEEPALIVE, TCP_KEEPIDLE = 0x10, socket.TCP_KEEPIDLE
"""One option as macOS and Linux number it."""
PACKAGES = ("pyroute2", "pyudev", "jeepney")
FOLDERS = ("/proc/", "/sys/", "/dev/fd/", "/dev/shm")


class NoPackages(importlib.abc.MetaPathFinder):
    """Packages that need Linux are not there."""

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname.partition(".")[0] in PACKAGES:
            raise ModuleNotFoundError(f"{fullname}: for Linux only", name=fullname)
        return None


def refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Linux's file systems and libraries are not there."""
    if event == "open" and str(arguments[0]).startswith(FOLDERS):
        raise FileNotFoundError(2, "No such file or directory", arguments[0])
    if event == "ctypes.dlopen" and ".so" in str(arguments[0]):
        raise OSError(f"dlopen({arguments[0]}): no such file")


def hide() -> None:
    """Take away what macOS lacks."""
    for module, beginnings in LINUX.items():
        for name in [name for name in vars(module) if name.startswith(beginnings)]:
            delattr(module, name)
    clock_gettime = time.clock_gettime

    def known_clock(clock: int) -> float:
        # CLOCK_REALTIME is 0 on both; other numbers are other clocks.
        if clock != time.CLOCK_REALTIME:
            raise OSError(22, "Invalid argument")
        return clock_gettime(clock)

    time.clock_gettime = known_clock
    setsockopt = socket.socket.setsockopt

    def translated(self: socket.socket, level: int, name: int, value: Any) -> None:
        keepalive = (level, name) == (socket.IPPROTO_TCP, TCP_KEEPALIVE)
        setsockopt(self, level, TCP_KEEPIDLE if keepalive else name, value)

    patched: Any = socket.socket
    patched.setsockopt = translated
    found = os.uname_result(("Darwin", "mac", "24.0.0", "Darwin Kernel Version 24.0.0", "arm64"))
    os.uname = lambda: found
    proxies: Any = types.ModuleType("_scproxy")
    proxies._get_proxies = dict
    proxies._get_proxy_settings = dict
    sys.modules["_scproxy"] = proxies
    sys.meta_path.insert(0, NoPackages())
    sys.platform = "darwin"
    sys.addaudithook(refuse)


if __name__ == "__main__":
    hide()
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
