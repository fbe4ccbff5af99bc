"""Kernel parameters that every node has. User's ones override them."""

from collections.abc import Mapping
from dataclasses import dataclass

from talos.process.daemons import DNSD
from talos.system.proc.sysctl import Sysctls

PREFIX = "proc.sys."
SYSFS_PREFIX = "sys."


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter. Those with ``metal_only`` are the whole machine's, no container may set them."""

    key: str
    value: str
    metal_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamResult:
    """The parameter's value in the kernel after setting it."""

    key: str
    wanted: str
    current: str = ""
    default: str = ""
    """The value before the first change."""
    unsupported: bool = False
    reason: str = ""
    """Why it is not as wanted."""


DEFAULTS = (
    Param("net.ipv4.ip_forward", "1"),
    Param("net.ipv4.icmp_ignore_bogus_error_responses", "1"),
    Param("net.ipv4.icmp_echo_ignore_broadcasts", "1"),
    Param("net.ipv4.conf.all.send_redirects", "0"),
    Param("net.ipv4.conf.default.send_redirects", "0"),
    Param("net.ipv4.ip_local_reserved_ports", "50000-50001"),
    # dnsd sends what `talosctl ping` requests, by sockets that need no capability.
    Param("net.ipv4.ping_group_range", f"{DNSD.uid} {DNSD.uid}"),
    Param("net.bridge.bridge-nf-call-iptables", "1", metal_only=True),
    Param("net.bridge.bridge-nf-call-ip6tables", "1", metal_only=True),
    Param("kernel.ctrl-alt-del", "0", metal_only=True),
    Param("net.ipv6.conf.default.forwarding", "1"),
    Param("net.ipv6.conf.default.accept_ra", "2"),
    # Any machine on a link can announce one of 1, with which no packet of the node's passes a router.
    Param("net.ipv6.conf.default.accept_ra_min_hop_limit", "32"),
    Param("net.ipv4.tcp_keepalive_time", "600"),
    Param("net.ipv4.tcp_keepalive_intvl", "60"),
    Param("kernel.panic", "10"),
    Param("kernel.pid_max", "262144"),
    Param("vm.overcommit_memory", "1"),
    Param("fs.inotify.max_user_instances", "8192"),
    Param("fs.aio-max-nr", "1048576"),
    # It panics only until PID 1 runs: after that a disk that is gone lets tasks wait, and the machine go on.
    Param("kernel.hung_task_panic", "0", metal_only=True),
    # Kernel Self Protection Project's recommendations, those of kernel/sysctl.conf.
    Param("dev.tty.ldisc_autoload", "0", metal_only=True),
    Param("dev.tty.legacy_tiocsti", "0", metal_only=True),
    Param("fs.protected_symlinks", "1", metal_only=True),
    Param("fs.protected_hardlinks", "1", metal_only=True),
    Param("fs.protected_fifos", "2", metal_only=True),
    Param("fs.protected_regular", "2", metal_only=True),
    Param("fs.suid_dumpable", "0", metal_only=True),
    Param("kernel.kptr_restrict", "2", metal_only=True),
    Param("kernel.dmesg_restrict", "1", metal_only=True),
    Param("kernel.perf_event_paranoid", "3", metal_only=True),
    Param("kernel.randomize_va_space", "2", metal_only=True),
    Param("kernel.yama.ptrace_scope", "3", metal_only=True),
    Param("user.max_user_namespaces", "0", metal_only=True),
    Param("kernel.unprivileged_bpf_disabled", "1", metal_only=True),
    Param("net.core.bpf_jit_harden", "2", metal_only=True),
    Param("vm.unprivileged_userfaultfd", "0", metal_only=True),
    Param("kernel.oops_limit", "100", metal_only=True),
    Param("kernel.warn_limit", "100", metal_only=True),
    Param("kernel.sysrq", "0", metal_only=True),
    Param("net.ipv4.conf.all.accept_redirects", "0", metal_only=True),
    Param("net.ipv4.conf.all.accept_source_route", "0", metal_only=True),
    Param("net.ipv4.conf.default.accept_redirects", "0", metal_only=True),
    Param("net.ipv4.conf.default.accept_source_route", "0", metal_only=True),
    Param("net.ipv4.tcp_syncookies", "1", metal_only=True),
    Param("net.ipv6.conf.all.accept_redirects", "0", metal_only=True),
    Param("net.ipv6.conf.all.accept_source_route", "0", metal_only=True),
    Param("net.ipv6.conf.default.accept_redirects", "0", metal_only=True),
    Param("net.ipv6.conf.default.accept_source_route", "0", metal_only=True),
    Param("vm.mmap_min_addr", "65536", metal_only=True),
    Param("vm.mmap_rnd_bits", "32", metal_only=True),
)


def default_params(*, has_kernel: bool) -> Mapping[str, str]:
    """The defaults, by key with prefix; fewer where the kernel is another machine's."""
    return {PREFIX + param.key: param.value for param in DEFAULTS if has_kernel or not param.metal_only}


class KernelParams:
    """Sets parameters and holds each one's previous value."""

    def __init__(self, sysctls: Sysctls, defaults: Mapping[str, str]) -> None:
        self._sysctls = sysctls
        self.defaults = defaults
        self._before: dict[str, str] = {}
        self._users: set[str] = set()

    def apply(self, users: Mapping[str, str]) -> list[ParamResult]:
        """Set the machine's parameters and a user's, by key with prefix; the user's win.

        What the user set before and does not set any more gets back its value. What can't be set
        is reported, no error.
        """
        for key in self._users - users.keys() - self.defaults.keys():
            self._set(key, self._before[key])
        self._users = {key for key in users if key in self._before or self._remember(key)}
        wanted = {**self.defaults, **users}
        return [self._set(key, value) for key, value in wanted.items()]

    def _remember(self, key: str) -> bool:
        if not is_key(key):
            return False
        try:
            self._before.setdefault(key, self._sysctls.read(key))
        except (OSError, ValueError):
            return False
        return True

    def _set(self, key: str, value: str) -> ParamResult:
        if not self._remember(key):
            return ParamResult(key=key, wanted=value, unsupported=True, reason="this kernel has none")
        before = self._before[key]
        reason = ""
        try:
            if self._sysctls.read(key).split() != value.split():
                self._sysctls.write(key, value)
        except OSError as error:
            reason = error.strerror or str(error)
        try:
            current = self._sysctls.read(key)
        except (OSError, ValueError):
            current = ""
        return ParamResult(
            key=key, wanted=value, current=current, default=before, unsupported=bool(reason), reason=reason
        )


def is_key(key: str) -> bool:
    """Whether it can be a parameter's key; it must not lead out of /proc/sys and /sys."""
    parts = key.split(".")
    names = [part.replace("/", ".") for part in parts]
    return key.startswith((PREFIX, SYSFS_PREFIX)) and not {"", ".", ".."} & set(names)
