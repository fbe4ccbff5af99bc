"""System calls that Python's os module lacks, and their constants."""

import ctypes
import fcntl
import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

# linux/capability.h
CAP_CHOWN = 0
CAP_DAC_OVERRIDE = 1
CAP_FOWNER = 3
CAP_NET_BIND_SERVICE = 10
CAP_NET_ADMIN = 12
CAP_NET_RAW = 13
CAP_SYS_TIME = 25
_CAPABILITY_VERSION_3 = 0x20080522
# linux/fcntl.h, linux/fs.h
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_FS_IOC_GETFLAGS = 0x80086601
_FS_IOC_SETFLAGS = 0x40086602
_FS_IMMUTABLE_FL = 0x10
# linux/ioprio.h
_IOPRIO_WHO_PROCESS = 1
_IOPRIO_IDLE = 3 << 13
_SYS_IOPRIO_SET = 251
# linux/mount.h, asm-generic/unistd.h
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 0x00000001
_FSOPEN_CLOEXEC = 1
_FSCONFIG_SET_STRING = 1
_FSCONFIG_CMD_CREATE = 6
_FSMOUNT_CLOEXEC = 1
_MOVE_MOUNT_F_EMPTY_PATH = 4
_SYS_MOVE_MOUNT = 429
_SYS_FSOPEN = 430
_SYS_FSCONFIG = 431
_SYS_FSMOUNT = 432
_SYS_MOUNT_SETATTR = 442
# linux/nsfs.h: _IOR(NSIO, 7, int)
_NS_GET_TGID_FROM_PIDNS = 0x8004B707
# linux/prctl.h
_PR_CAPBSET_READ = 23
_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_KEEPCAPS = 8
_PR_SET_NAME = 15
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_PDEATHSIG = 1
# linux/reboot.h
RB_AUTOBOOT = 0x01234567
RB_HALT_SYSTEM = 0xCDEF0123
RB_POWER_OFF = 0x4321FEDC
# linux/sched.h
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWNET = 0x40000000
CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000
CLONE_NEWUTS = 0x04000000
# malloc.h
_M_ARENA_MAX = -8
# linux/mman.h
_MCL_CURRENT = 1
_MCL_ONFAULT = 4
# sys/mount.h
MNT_DETACH = 2
MS_BIND = 4096
MS_NOATIME = 1024
MS_NODEV = 4
MS_NOEXEC = 8
MS_NOSUID = 2
MS_PRIVATE = 1 << 18
MS_RDONLY = 1
MS_REC = 16384
MS_RELATIME = 1 << 21
MS_REMOUNT = 32
MS_SHARED = 1 << 20
MS_SLAVE = 1 << 19
MS_UNBINDABLE = 1 << 17
UMOUNT_NOFOLLOW = 8

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def trim_heap() -> None:
    """Give free memory of the C library's heap back to the kernel."""
    _libc.malloc_trim(ctypes.c_size_t(0))


def exchange(one: str, other: str) -> None:
    """Have two files of a filesystem exchange their names at once; OSError."""
    _check(_libc.renameat2(_AT_FDCWD, one.encode(), _AT_FDCWD, other.encode(), _RENAME_EXCHANGE), one)


def mount(source: str, target: str, type: str = "", flags: int = 0, data: str = "") -> None:
    """Mount a filesystem or change a mount; empty ``type`` and ``data`` are passed as null."""
    _check(
        _libc.mount(
            source.encode(),
            os.fsencode(target),
            type.encode() or None,
            ctypes.c_ulong(flags),
            data.encode() or None,
        ),
        f"mount {source} on {target}",
    )


def mount_read_only(target: str, type: str, options: Iterable[tuple[str, str]]) -> None:
    """Mount a filesystem read-only.

    Each option may have 255 bytes; all of them together may have more than the 4095 bytes of :func:`mount`.
    """
    filesystem = syscall(_SYS_FSOPEN, type.encode(), _FSOPEN_CLOEXEC)
    try:
        for name, value in options:
            syscall(_SYS_FSCONFIG, filesystem, _FSCONFIG_SET_STRING, name.encode(), value.encode(), 0)
        syscall(_SYS_FSCONFIG, filesystem, _FSCONFIG_CMD_CREATE, None, None, 0)
        mounted = syscall(_SYS_FSMOUNT, filesystem, _FSMOUNT_CLOEXEC, _MOUNT_ATTR_RDONLY)
    finally:
        os.close(filesystem)
    try:
        syscall(_SYS_MOVE_MOUNT, mounted, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    finally:
        os.close(mounted)


def umount(target: str, flags: int = 0) -> None:
    """Unmount what is mounted on top of a directory or file."""
    _check(_libc.umount2(os.fsencode(target), flags), f"unmount {target}")


def swapon(device: str, flags: int = 0) -> None:
    """Let the kernel swap to a device."""
    _check(_libc.swapon(os.fsencode(device), flags), f"swap to {device}")


def swapoff(device: str) -> None:
    """End that; everything comes back into memory."""
    _check(_libc.swapoff(os.fsencode(device)), f"end swapping to {device}")


def set_immutable(directory: str, *, immutable: bool) -> None:
    """Whether anything may be added to a directory; OSError where its filesystem has no such flag."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        flags = int.from_bytes(fcntl.ioctl(descriptor, _FS_IOC_GETFLAGS, bytes(4)), sys.byteorder)
        wanted = flags & ~_FS_IMMUTABLE_FL | (_FS_IMMUTABLE_FL if immutable else 0)
        if wanted != flags:
            fcntl.ioctl(descriptor, _FS_IOC_SETFLAGS, wanted.to_bytes(4, sys.byteorder))
    finally:
        os.close(descriptor)


def set_read_only(target: str, *, read_only: bool, recursive: bool = False) -> None:
    """Make a mount, or with ``recursive`` the tree of mounts below it, read-only or writable."""
    attributes = (ctypes.c_uint64 * 4)(
        _MOUNT_ATTR_RDONLY if read_only else 0, 0 if read_only else _MOUNT_ATTR_RDONLY, 0, 0
    )
    syscall(
        _SYS_MOUNT_SETATTR,
        -1,  # no directory: the path is absolute
        os.fsencode(target),
        _AT_RECURSIVE if recursive else 0,
        attributes,
        ctypes.sizeof(attributes),
    )


def pivot_root(new_root: str) -> None:
    """Make a mount point the root and drop the old one; the working directory becomes ``/``."""
    os.chdir(new_root)
    _check(_libc.pivot_root(b".", b"."), f"pivot_root to {new_root}")
    umount(".", MNT_DETACH)
    os.chdir("/")


def unshare(flags: int) -> None:
    """Leave namespaces for new ones."""
    _check(_libc.unshare(flags), f"unshare {flags:#x}")


def setns(fd: int, type: int = 0) -> None:
    """Enter a namespace."""
    _check(_libc.setns(fd, type), "setns")


def find_pid(namespace: int, pid: int) -> int:
    """A process's pid here by that in another pid namespace; ProcessLookupError. Since Linux 6.11."""
    return fcntl.ioctl(namespace, _NS_GET_TGID_FROM_PIDNS, pid)


def reboot(command: int) -> None:
    """Reboot, halt or power off; in a pid namespace of its own it ends the namespace's init by a signal."""
    _check(_libc.reboot(ctypes.c_int(ctypes.c_uint32(command).value)), "reboot")


def set_hostname(name: str) -> None:
    """Name this uts namespace."""
    encoded = name.encode()
    _check(_libc.sethostname(encoded, len(encoded)), "sethostname")


def syscall(number: int, *arguments: int | bytes | ctypes.Array[Any] | None) -> int:
    """A system call that the C library has no function for."""
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *values), f"system call {number}")


@contextmanager
def idle_io() -> Generator[None]:
    """What this thread reads and writes waits for everything else."""
    syscall(_SYS_IOPRIO_SET, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_IDLE)
    try:
        yield
    finally:
        syscall(_SYS_IOPRIO_SET, _IOPRIO_WHO_PROCESS, 0, 0)


def close_inherited(keep: Iterable[int]) -> None:
    """Close every descriptor but standard input, output and error and these."""
    first = 3
    for fd in sorted({fd for fd in keep if fd >= first}):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def limit_arenas(count: int) -> None:
    """Have the C library keep at most so many heaps: threads that come and go leave memory behind in each."""
    _libc.mallopt(_M_ARENA_MAX, count)


def keep_in_memory() -> None:
    """Never take a page from memory that this process has mapped by now; OSError without CAP_IPC_LOCK.

    Pages that it has not used yet come when it uses them. A child after a fork has none of this.
    """
    _check(_libc.mlockall(_MCL_CURRENT | _MCL_ONFAULT), "mlockall")


def prctl(option: int, *arguments: int) -> int:
    """Change or read an attribute of this process or thread."""
    padded = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]]
    return _check(_libc.prctl(option, *padded), f"prctl {option}")


def set_child_subreaper() -> None:
    """Become the parent of descendants that lose theirs, as PID 1 is by itself."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_no_new_privileges() -> None:
    """From now on, no program that is run gains privileges."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def set_keep_capabilities() -> None:
    """Keep the permitted capabilities when the uid changes."""
    prctl(_PR_SET_KEEPCAPS, 1)


def set_parent_death_signal(number: int) -> None:
    """Request a signal when the parent dies."""
    prctl(_PR_SET_PDEATHSIG, number)


def set_thread_name(name: str) -> None:
    """The name in /proc/<pid>/comm; the kernel keeps 15 bytes."""
    buffer = ctypes.create_string_buffer(name.encode()[:15])
    prctl(_PR_SET_NAME, ctypes.addressof(buffer))


def drop_bounding_set(keep: Iterable[int]) -> None:
    """Give up for good every capability but these, and clear the ambient set."""
    kept = frozenset(keep)
    for capability in range(64):
        try:
            present = prctl(_PR_CAPBSET_READ, capability)
        except OSError:  # past the last one that this kernel has
            break
        if present and capability not in kept:
            prctl(_PR_CAPBSET_DROP, capability)
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)


def set_capabilities(capabilities: Iterable[int]) -> None:
    """Set effective and permitted capabilities to exactly these; nothing is inheritable."""
    mask = sum(1 << capability for capability in capabilities)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    _check(_libc.capset(header, data), "capset")


def set_process_title(title: str) -> None:
    """Replace what /proc/<pid>/cmdline shows, within the length of the original command line.

    To be called before the uid changes: afterwards the kernel hides where the arguments lie.
    """
    fields = _read_stat().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start, arg_end: 48th and 49th of proc(5)
    if not 0 < start < end:
        return
    room = end - start
    encoded = title.encode()[: room - 1]
    ctypes.memmove(start, encoded.ljust(room, b"\0"), room)
    set_thread_name(title)


def _read_stat() -> str:
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - no imports here
        return file.read()
