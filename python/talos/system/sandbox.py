"""What a process can forbid itself for good: system calls by seccomp, files and signals by Landlock.

The filter is a list of what nothing in a Python daemon calls, not of what it may call: the interpreter and
the C library together call more than anyone can list, and differently with each version.
"""

import ctypes
import errno
import os
import socket
import stat
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from talos.system import kernel

INTERNET = (int(socket.AF_INET), int(socket.AF_INET6))
NETLINK = int(socket.AF_NETLINK)
PACKET = int(socket.AF_PACKET)
"""Address families of sockets."""

# asm/unistd_64.h
_CLONE = 56
_SOCKET = 41
_SOCKETPAIR = 53
_CLONE3 = 435
_X32_BIT = 0x40000000
DENIED = (
    59,  # execve
    101,  # ptrace
    103,  # syslog
    134,  # uselib
    135,  # personality
    136,  # ustat
    139,  # sysfs
    153,  # vhangup
    154,  # modify_ldt
    155,  # pivot_root
    156,  # _sysctl
    161,  # chroot
    163,  # acct
    165,  # mount
    166,  # umount2
    167,  # swapon
    168,  # swapoff
    169,  # reboot
    170,  # sethostname
    171,  # setdomainname
    172,  # iopl
    173,  # ioperm
    174,  # create_module
    175,  # init_module
    176,  # delete_module
    179,  # quotactl
    180,  # nfsservctl
    212,  # lookup_dcookie
    237,  # mbind
    238,  # set_mempolicy
    246,  # kexec_load
    248,  # add_key
    249,  # request_key
    250,  # keyctl
    256,  # migrate_pages
    272,  # unshare
    279,  # move_pages
    298,  # perf_event_open
    300,  # fanotify_init
    303,  # name_to_handle_at
    304,  # open_by_handle_at
    308,  # setns
    310,  # process_vm_readv
    311,  # process_vm_writev
    312,  # kcmp
    313,  # finit_module
    320,  # kexec_file_load
    321,  # bpf
    322,  # execveat
    323,  # userfaultfd
    425,  # io_uring_setup
    426,  # io_uring_enter
    427,  # io_uring_register
    428,  # open_tree
    429,  # move_mount
    430,  # fsopen
    431,  # fsconfig
    432,  # fsmount
    433,  # fspick
    438,  # pidfd_getfd
    440,  # process_madvise
    442,  # mount_setattr
    443,  # quotactl_fd
    467,  # open_tree_attr
)
"""System calls that fail with EPERM, in the order of their numbers."""
# linux/audit.h
_AUDIT_ARCH_X86_64 = 0xC000003E
# linux/bpf_common.h, linux/filter.h
_JUMP_IF_EQUAL = 0x15
_JUMP_IF_NOT_LESS = 0x35
_JUMP_IF_ANY_BIT = 0x45
_LOAD = 0x20
_RETURN = 0x06
# linux/landlock.h
_LANDLOCK_CREATE_RULESET_VERSION = 1
_LANDLOCK_RULE_PATH_BENEATH = 1
_ACCESS_READ_FILE = 1 << 2
_ACCESS_READ_DIR = 1 << 3
_ACCESS_TRUNCATE = 1 << 14
_ACCESS_IOCTL_DEV = 1 << 15
_ACCESS_OF_VERSION = {1: (1 << 13) - 1, 2: 1 << 13, 3: _ACCESS_TRUNCATE, 5: _ACCESS_IOCTL_DEV}
_ACCESS_OF_FILES = (1 << 3) - 1 | _ACCESS_TRUNCATE | _ACCESS_IOCTL_DEV
_SCOPE_ABSTRACT_UNIX_SOCKET = 1 << 0
_SCOPE_SIGNAL = 1 << 1
_VERSION_WITH_SCOPES = 6
_SYS_LANDLOCK_CREATE_RULESET = 444
_SYS_LANDLOCK_ADD_RULE = 445
_SYS_LANDLOCK_RESTRICT_SELF = 446
# linux/prctl.h, linux/seccomp.h
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_RETURN_ALLOW = 0x7FFF0000
_RETURN_ERROR = 0x00050000
_RETURN_KILL_PROCESS = 0x80000000
_OFFSET_NUMBER, _OFFSET_ARCHITECTURE, _OFFSET_FIRST_ARGUMENT = 0, 4, 16
"""In ``struct seccomp_data``; arguments are 64 bits wide, the lower half first."""
# linux/sched.h
_CLONE_NEWUSER = 0x10000000
_NAMESPACES = (
    kernel.CLONE_NEWCGROUP
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWUTS
    | _CLONE_NEWUSER
)

type Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant."""


def make_filter(families: Iterable[int]) -> list[Instruction]:
    """A program for the kernel's filter: what is denied, and which address families sockets may have.

    A call by another architecture's numbers ends the process: no daemon makes one.
    """
    denied = [(_JUMP_IF_EQUAL, 0, 1, number) for number in DENIED]
    refuse = _return_error(errno.EPERM)
    body: list[Instruction] = [
        (_LOAD, 0, 0, _OFFSET_ARCHITECTURE),
        (_JUMP_IF_EQUAL, 1, 0, _AUDIT_ARCH_X86_64),
        (_RETURN, 0, 0, _RETURN_KILL_PROCESS),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
        (_JUMP_IF_NOT_LESS, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _RETURN_KILL_PROCESS),
    ]
    for instruction in denied:
        body += [instruction, refuse]
    # Its flags lie in memory, out of a filter's sight; the C library then takes the older call.
    body += [(_JUMP_IF_EQUAL, 0, 1, _CLONE3), _return_error(errno.ENOSYS)]
    body += [
        (_JUMP_IF_EQUAL, 0, 4, _CLONE),
        (_LOAD, 0, 0, _OFFSET_FIRST_ARGUMENT),
        (_JUMP_IF_ANY_BIT, 0, 1, _NAMESPACES),
        refuse,
        (_RETURN, 0, 0, _RETURN_ALLOW),
    ]
    allowed: list[Instruction] = []
    for family in sorted(families):
        allowed += [(_JUMP_IF_EQUAL, 0, 1, family), (_RETURN, 0, 0, _RETURN_ALLOW)]
    body += [
        (_JUMP_IF_EQUAL, 1, 0, _SOCKET),
        (_JUMP_IF_EQUAL, 0, len(allowed) + 2, _SOCKETPAIR),
        (_LOAD, 0, 0, _OFFSET_FIRST_ARGUMENT),
        *allowed,
        _return_error(errno.EAFNOSUPPORT),
        (_RETURN, 0, 0, _RETURN_ALLOW),
    ]
    return body


def _return_error(number: int) -> Instruction:
    return (_RETURN, 0, 0, _RETURN_ERROR | number)


def filter_system_calls(families: Iterable[int]) -> None:
    """Install the filter in this thread, for good; after ``kernel.set_no_new_privileges``."""
    program = make_filter(families)
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: the length, padding, a pointer.
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer)))
    kernel.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(head))


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Directories and files that a process may open, each with what is below it."""

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()

    def __or__(self, other: "Paths") -> "Paths":
        return Paths(readable=self.readable + other.readable, writable=self.writable + other.writable)


NO_PATHS = Paths()


def confine_files(paths: Paths) -> bool:
    """Let this process open nothing outside of these paths, nor signal others, for good.

    Sockets are found by path all the same. False when the kernel has no Landlock. Paths that don't
    exist are passed over. After ``kernel.set_no_new_privileges``.
    """
    try:
        version = kernel.syscall(_SYS_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_CREATE_RULESET_VERSION)
    except OSError:
        return False
    handled = sum(access for since, access in _ACCESS_OF_VERSION.items() if since <= version)
    scopes = _SCOPE_SIGNAL | _SCOPE_ABSTRACT_UNIX_SOCKET if version >= _VERSION_WITH_SCOPES else 0
    attributes = (ctypes.c_uint64 * 3)(handled, 0, scopes)
    size = ctypes.sizeof(attributes) if scopes else ctypes.sizeof(ctypes.c_uint64)
    ruleset = kernel.syscall(_SYS_LANDLOCK_CREATE_RULESET, attributes, size, 0)
    try:
        for path in paths.readable:
            _add_rule(ruleset, path, (_ACCESS_READ_FILE | _ACCESS_READ_DIR) & handled)
        for path in paths.writable:
            _add_rule(ruleset, path, handled & ~1)  # all but to execute
        kernel.syscall(_SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return True


def _add_rule(ruleset: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            access &= _ACCESS_OF_FILES
        rule = struct.pack("=Qi", access, fd)
        kernel.syscall(_SYS_LANDLOCK_ADD_RULE, ruleset, _LANDLOCK_RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(fd)
