"""The filter of system calls that containers of the system run under: containerd's default for x86_64.

https://github.com/containerd/containerd/blob/v1.7.24/contrib/seccomp/seccomp_default.go
"""

import errno
from collections.abc import Iterable
from typing import Any

_ALLOWED = """
accept accept4 access alarm arch_prctl bind brk cachestat capget capset chdir chmod chown clock_adjtime
clock_getres clock_gettime clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3
epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old
eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64 fallocate fanotify_mark
fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fork
fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue futex_wait futex_waitv
futex_wake futimesat get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid geteuid
getgid getgroups getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid
getresuid getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid getxattr
inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents
io_pgetevents io_setup io_submit ioctl ioprio_get ioprio_set kill landlock_add_rule
landlock_create_ruleset landlock_restrict_self lchown lgetxattr link linkat listen listxattr llistxattr
lremovexattr lseek lsetxattr lstat madvise map_shadow_stack membarrier memfd_create memfd_secret mincore
mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap modify_ldt mprotect mq_getsetattr mq_notify
mq_open mq_timedreceive mq_timedsend mq_unlink mremap msgctl msgget msgrcv msgsnd msync munlock
munlockall munmap name_to_handle_at nanosleep newfstatat open openat openat2 pause pidfd_open
pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64 preadv preadv2
prlimit64 process_mrelease process_vm_readv process_vm_writev pselect6 ptrace pwrite64 pwritev pwritev2
read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg remap_file_pages removexattr rename
renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo
rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max
sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield
seccomp select semctl semget semop semtimedop sendfile sendmmsg sendmsg sendto set_robust_list
set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid setpriority
setregid setresgid setresuid setreuid setrlimit setsid setsockopt setuid setxattr shmat shmctl shmdt
shmget shutdown sigaltstack signalfd signalfd4 socketpair splice stat statfs statx symlink symlinkat
sync sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete timer_getoverrun
timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask
uname unlink unlinkat utime utimensat utimes vfork vmsplice wait4 waitid write writev
"""
ALLOWED = tuple(_ALLOWED.split())
"""System calls that every container may make, sorted."""
WITH_CAPABILITY = {
    "CAP_BPF": ("bpf",),
    "CAP_DAC_READ_SEARCH": ("open_by_handle_at",),
    "CAP_PERFMON": ("perf_event_open",),
    "CAP_SYS_ADMIN": (
        *(
            "bpf",
            "clone",
            "clone3",
            "fanotify_init",
            "fsconfig",
            "fsmount",
            "fsopen",
            "fspick",
            "lookup_dcookie",
        ),
        *("mount", "mount_setattr", "move_mount", "open_tree", "perf_event_open", "quotactl", "quotactl_fd"),
        *("setdomainname", "sethostname", "setns", "syslog", "umount2", "unshare"),
    ),
    "CAP_SYS_BOOT": ("reboot",),
    "CAP_SYS_CHROOT": ("chroot",),
    "CAP_SYS_MODULE": ("delete_module", "finit_module", "init_module"),
    "CAP_SYS_NICE": ("get_mempolicy", "mbind", "set_mempolicy", "set_mempolicy_home_node"),
    "CAP_SYS_PACCT": ("acct",),
    "CAP_SYS_PTRACE": ("kcmp", "pidfd_getfd", "process_madvise"),
    "CAP_SYS_RAWIO": ("iopl", "ioperm"),
    "CAP_SYS_TIME": ("adjtimex", "clock_settime", "settimeofday"),
    "CAP_SYS_TTY_CONFIG": ("vhangup",),
    "CAP_SYSLOG": ("syslog",),
}
"""System calls that belong to capabilities."""
PERSONALITIES = (0x0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)
"""Those of Linux, with or without uname26, and the question which one it is (linux/personality.h)."""
NAMESPACES = 0x7E020000
"""Flags of clone that make namespaces (linux/sched.h)."""
AF_VSOCK = 40
"""Sockets to the machine's hypervisor, which no network namespace holds back."""


def make_seccomp(capabilities: Iterable[str]) -> dict[str, Any]:
    """The filter as the runtime spec has it; all other calls fail with EPERM."""
    held = set(capabilities)
    names = {*ALLOWED, *(name for capability in held for name in WITH_CAPABILITY.get(capability, ()))}
    rules: list[dict[str, Any]] = [{"names": sorted(names), "action": "SCMP_ACT_ALLOW"}]
    rules += [_compare("personality", value, "SCMP_CMP_EQ") for value in PERSONALITIES]
    rules.append(_compare("socket", AF_VSOCK, "SCMP_CMP_NE"))
    if "CAP_SYS_ADMIN" not in held:
        rules.append(_compare("clone", NAMESPACES, "SCMP_CMP_MASKED_EQ", 0))
        # Its flags are out of a filter's sight; the C library then takes the older call.
        rules.append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": int(errno.ENOSYS)})
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": int(errno.EPERM),
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": rules,
    }


def _compare(name: str, value: int, comparison: str, masked: int | None = None) -> dict[str, Any]:
    """Allow a call by its first argument."""
    argument: dict[str, Any] = {"index": 0, "value": value, "op": comparison}
    if masked is not None:
        argument["valueTwo"] = masked
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": [argument]}
