"""Calls of the kernel that Python has no function for, and mounts in the words of mount(8)."""

import ctypes
import enum
import os
from pathlib import Path

# <sys/mount.h>
_MNT_DETACH = 2
# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
# <asm/unistd.h>, per machine
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

_libc = ctypes.CDLL(None, use_errno=True)


class MountFlag(enum.IntFlag):
    """Flags of mount(2), from <linux/mount.h>."""

    READ_ONLY = 0x1
    NO_SUID = 0x2
    NO_DEV = 0x4
    NO_EXEC = 0x8
    REMOUNT = 0x20
    BIND = 0x1000
    RECURSIVE = 0x4000
    PRIVATE = 0x40000
    SHARED = 0x100000


NO_FLAGS = MountFlag(0)
HARDENED = MountFlag.NO_SUID | MountFlag.NO_DEV | MountFlag.NO_EXEC


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def mount(
    source: str | Path, target: str | Path, type: str = "", flags: MountFlag = NO_FLAGS, options: str = ""
) -> None:
    """Mount a file system."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        type.encode() or None,
        ctypes.c_ulong(flags.value),
        options.encode() or None,
    )
    _check(result, str(target))


def bind(source: str | Path, target: str | Path, *, read_only: bool = False) -> None:
    """Show a file or directory at a second place; read-only needs a second step."""
    mount(source, target, flags=MountFlag.BIND)
    if read_only:
        mount("none", target, flags=MountFlag.BIND | MountFlag.REMOUNT | MountFlag.READ_ONLY)


def set_propagation(target: str | Path, flag: MountFlag) -> None:
    """Whether mounts below the target are told to other namespaces: SHARED or PRIVATE."""
    mount("none", target, flags=flag | MountFlag.RECURSIVE)


def unmount(target: str | Path) -> None:
    """Take a mount away at once; what still uses it keeps it until it ends."""
    _check(_libc.umount2(os.fsencode(target), _MNT_DETACH), str(target))


def pivot_root(root: Path) -> None:
    """Make a mount point the root of this mount namespace and drop the old root."""
    os.chdir(root)
    _check(_libc.syscall(_SYS_PIVOT_ROOT[os.uname().machine], b".", b"."), f"pivot_root {root}")
    unmount(".")
    os.chdir("/")


def set_parent_death_signal(signal: int) -> None:
    """Have this process signalled when its present parent ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0), "PR_SET_PDEATHSIG")


def become_subreaper() -> None:
    """Become the parent of descendants whose own parent ended."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "PR_SET_CHILD_SUBREAPER")


def set_process_name(name: str) -> None:
    """Name this thread in process lists; the kernel keeps 15 characters."""
    _check(_libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0), "PR_SET_NAME")
