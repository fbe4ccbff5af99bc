"""Kernel parameters that every node has. User's ones override them."""

from collections.abc import Mapping
from dataclasses import dataclass

from talos.system.sysctl import Sysctls

PREFIX = "proc.sys."


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter. Those with ``metal_only`` are the whole machine's, no container may set them."""

    key: str
    value: str
    metal_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamResult:
    """What the kernel made of it."""

    key: str
    current: str
    default: str
    unsupported: bool


DEFAULTS = (
    Param("net.ipv4.ip_forward", "1"),
    Param("net.ipv4.icmp_ignore_bogus_error_responses", "1"),
    Param("net.ipv4.icmp_echo_ignore_broadcasts", "1"),
    Param("net.ipv4.conf.all.send_redirects", "0"),
    Param("net.ipv4.conf.default.send_redirects", "0"),
    Param("net.ipv4.ip_local_reserved_ports", "50000-50001"),
    Param("net.bridge.bridge-nf-call-iptables", "1", metal_only=True),
    Param("net.bridge.bridge-nf-call-ip6tables", "1", metal_only=True),
    Param("kernel.ctrl-alt-del", "0", metal_only=True),
    Param("net.ipv6.conf.default.forwarding", "1"),
    Param("net.ipv6.conf.default.accept_ra", "2"),
    Param("net.ipv4.tcp_keepalive_time", "600"),
    Param("net.ipv4.tcp_keepalive_intvl", "60"),
    Param("kernel.panic", "10"),
    Param("kernel.pid_max", "262144"),
    Param("vm.overcommit_memory", "1"),
    Param("fs.inotify.max_user_instances", "8192"),
    Param("fs.aio-max-nr", "1048576"),
    # Kernel Self Protection Project's recommendations.
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
    Param("kernel.yama.ptrace_scope", "2", metal_only=True),
    Param("user.max_user_namespaces", "0", metal_only=True),
    Param("kernel.unprivileged_bpf_disabled", "1", metal_only=True),
    Param("net.core.bpf_jit_harden", "2", metal_only=True),
    Param("vm.unprivileged_userfaultfd", "0", metal_only=True),
)


def apply_params(sysctls: Sysctls, wanted: Mapping[str, str]) -> list[ParamResult]:
    """Set parameters, given by their key with prefix; what can't be set is reported, no error."""
    return [_apply(sysctls, key, value) for key, value in wanted.items()]


def default_params(*, is_container: bool) -> Mapping[str, str]:
    """The defaults for this machine, by key with prefix."""
    return {PREFIX + param.key: param.value for param in DEFAULTS if not (is_container and param.metal_only)}


def _apply(sysctls: Sysctls, key: str, value: str) -> ParamResult:
    try:
        before = sysctls.read(key)
    except OSError:
        return ParamResult(key=key, current="", default="", unsupported=True)
    if before == value:
        return ParamResult(key=key, current=value, default=before, unsupported=False)
    try:
        sysctls.write(key, value)
    except OSError:
        return ParamResult(key=key, current=before, default=before, unsupported=True)
    return ParamResult(key=key, current=sysctls.read(key), default=before, unsupported=False)
