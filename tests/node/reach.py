"""What a process reaches with a daemon's uid, view and filter on a running node. Prints one JSON object.

Arguments: the daemon's name and the pid of the node's PID 1. Landlock is left out, so that what is found is
the same on every kernel: it can only be less.
"""

import ctypes
import json
import os
import socket
import stat
import sys
from contextlib import suppress
from pathlib import Path

from talos.machined.containerd.client import CRI_SOCKET, SYSTEM_SOCKET
from talos.machined.services.daemons import make_daemon_service
from talos.machined.services.spec import Fork
from talos.machined.services.zygote import make_private_view
from talos.process.daemons import BY_NAME, DAEMONS, KUBELET_IMAGES, MACHINE_SOCKET
from talos.process.privileges import Privileges, drop_privileges
from talos.system import sandbox

NAMESPACES = ("net", "uts", "ipc", "cgroup", "pid", "mnt")
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
CALLS = {
    "add_key": 248,
    "bpf": 321,
    "chroot": 161,
    "clone3": 435,
    "delete_module": 176,
    "execve": 59,
    "execveat": 322,
    "fanotify_init": 300,
    "finit_module": 313,
    "fsmount": 432,
    "fsopen": 430,
    "init_module": 175,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "io_uring_setup": 425,
    "ioperm": 173,
    "iopl": 172,
    "kcmp": 312,
    "kexec_file_load": 320,
    "kexec_load": 246,
    "keyctl": 250,
    "mount": 165,
    "mount_setattr": 442,
    "move_mount": 429,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "open_tree": 428,
    "perf_event_open": 298,
    "pidfd_getfd": 438,
    "pivot_root": 155,
    "process_madvise": 440,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "ptrace": 101,
    "quotactl": 179,
    "reboot": 169,
    "request_key": 249,
    "setdomainname": 171,
    "sethostname": 170,
    "setns": 308,
    "swapon": 167,
    "syslog": 103,
    "umount2": 166,
    "unshare": 272,
    "userfaultfd": 323,
}
"""asm/unistd_64.h: what turns a fallen process into more."""
CLOSED = {1, 38, 97}
"""EPERM, ENOSYS, EAFNOSUPPORT."""
PROCESS_FILES = ("environ", "maps", "mem", "root", "fd")
TYPES = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW)
MAX_FAMILY = 45


def find_sockets() -> list[str]:
    """Those that answer."""
    paths = [MACHINE_SOCKET, SYSTEM_SOCKET, CRI_SOCKET, KUBELET_IMAGES]
    paths += [path for row in DAEMONS for path in (row.state_socket, *((row.socket,) if row.caller else ()))]
    found: list[str] = []
    for path in paths:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(path)
            client.sendall(HELLO)
            if client.recv(1):
                found.append(path)
    return found


def opens(path: str, flags: int) -> bool:
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def shorten(path: str, depth: int) -> str:
    """The folder that stands for a file, so that what comes and goes has a name that stays."""
    parts = path.split("/")
    return path if len(parts) <= depth + 1 else "/".join(parts[: depth + 1])


def find_files(writable: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """What opens for writing, and what opens for reading though its mode does not allow that to all."""
    written, read = set[str](), set[str]()
    for folder, folders, names in os.walk("/"):
        if folder == "/proc":
            folders[:] = ["sys"]
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 - tens of thousands
            try:
                mode = os.lstat(path).st_mode
            except OSError:
                continue
            if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
                continue
            if opens(path, os.O_WRONLY):
                top = next((one for one in writable if path.startswith(f"{one}/")), "")
                written.add(top or shorten(path, 3))
            if (
                not mode & stat.S_IROTH
                and not path.startswith(("/proc/", "/sys/"))
                and opens(path, os.O_RDONLY)
            ):
                read.add(shorten(path, 2))
    for name in PROCESS_FILES:
        path = f"/proc/1/{name}"
        if opens(path, os.O_RDONLY) and (name != "maps" or Path(path).read_bytes()):
            read.add(path)
    return sorted(written), sorted(read)


def find_families() -> list[str]:
    """The families of the sockets that it can make."""
    found: list[str] = []
    for family in range(MAX_FAMILY + 1):
        for kind in TYPES:
            with suppress(OSError), socket.socket(family, kind):
                name = socket.AddressFamily(family).name.removeprefix("AF_").lower()
                found.append(f"{name} (raw)" if kind is socket.SOCK_RAW else name)
    return sorted(set(found))


def find_calls() -> list[str]:
    """Which of the calls are made; their arguments are such that they fail, if only later."""
    libc = ctypes.CDLL(None, use_errno=True)
    minus = ctypes.c_long(-1)
    found: list[str] = []
    for name, number in CALLS.items():
        ctypes.set_errno(0)
        if libc.syscall(ctypes.c_long(number), *[minus] * 5) != -1 or ctypes.get_errno() not in CLOSED:
            found.append(name)
    return found


def main() -> None:
    row, init = BY_NAME[sys.argv[1]], int(sys.argv[2])
    start = make_daemon_service(row).start
    assert isinstance(start, Fork)
    descriptors = [os.open(f"/proc/{init}/ns/{name}", os.O_RDONLY) for name in NAMESPACES]
    for descriptor in descriptors:
        os.setns(descriptor)
        os.close(descriptor)
    pid = os.fork()  # into the pid namespace
    if pid:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    make_private_view(start.paths.writable, start.sockets)
    capabilities = frozenset(start.capabilities)
    drop_privileges(row.name, Privileges(uid=start.uid, gid=start.gid, capabilities=capabilities))
    sandbox.filter_system_calls({int(socket.AF_UNIX), *start.families})
    written, read = find_files(start.paths.writable)
    found = {
        "sockets": find_sockets(),
        "writes": written,
        "reads": read,
        "families": find_families(),
        "calls": find_calls(),
    }
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)


main()
