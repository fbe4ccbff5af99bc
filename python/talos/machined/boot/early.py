"""What PID 1 does before its event loop: the kernel's filesystems, and the zygote.

What only PID 1 or only daemons need is imported after the fork, on both sides at the same
time: a node's start waits for both.
"""

import gc
import importlib
import resource as limits
from functools import partial
from pathlib import Path

from talos.machined.boot.filesystems import mount_pseudo
from talos.machined.logs.console import MACHINED, make_console, make_sink
from talos.machined.logs.store import LogStore
from talos.machined.platform.handover import is_container
from talos.machined.services.zygote import fork_zygote
from talos.process.daemons import DAEMONS, NETWORKD
from talos.process.run import run
from talos.system.logging import Log
from talos.system.memory import keep_objects, number_versions
from talos.system.mounts import KernelMounts
from talos.system.proc.cmdline import parse_cmdline
from talos.system.version import get_version
from talos.system.watchdog import arm_watchdog, find_watchdog
from talos.upgrade.slots.systemd_boot.starts import StartCount
from talos.upgrade.state import TRIAL_ARGUMENT

SHARED_MODULES = (
    "talos.rpc.channel",
    "talos.rpc.server",
    "talos.process.state",
    "talos.resource.controller.runtime",
    "talos.resource.remote.service",
    "talos.config.effective.cluster",
    "talos.config.effective.machine",
    "talos.config.effective.network",
    "talos.config.effective.secrets",
    "talos.config.active",
    "talos.api.machine.machine_pb2",
    "talos.resource.memory.state",
    "talos.resource.objects",
    "talos.config.cel.environments",
    "talos.config.effective.kubernetes",
    "talos.config.kubeconfig",
    "talos.etcd.lock",
    "talos.pki.authority",
    "talos.process.fetch",
    "talos.system.proc.sockets",
    *(
        f"talos.config.documents.network.{name}"
        for name in (
            "bond",
            "bridge",
            "link_alias",
            "network_rule",
            "routing_rule",
            "veth",
            "vlan",
            "vrf",
            "wireguard",
        )
    ),
)
"""Modules of both PID 1 and daemons: imported before the fork, they are loaded once, their memory is shared.

That delays nothing: on a container node the zygote has all modules of daemons before it forks the first, and
PID 1 goes on with its own after the fork.
"""
MACHINES_FIRST = (*(daemon.module for daemon in DAEMONS if daemon.needs_devices), NETWORKD.module)
"""Modules imported first on a machine: networkd waits for the names of devices, and much for networkd."""

TRIAL_TIMEOUT = 120
"""Seconds from the start of PID 1 until the self-check has to feed the watchdog, and between two feeds."""

NOFILE = 1048576
"""Open files that services may have, where the kernel allows it."""


def boot_machine() -> None:
    """Mount, fork the zygote before event loops run, then boot."""
    has_kernel = not is_container()
    logs = LogStore()
    log = Log({"service": MACHINED}, write=make_sink(logs, MACHINED, make_console(has_kernel=has_kernel)))
    log.info(f"Talos {get_version().tag} begins")
    mount_pseudo(KernelMounts(), has_kernel=has_kernel, log=log)
    if has_kernel:
        arm_if_guarded(log)
    raise_limits(log)
    share_memory()
    zygote, pid = fork_zygote(MACHINES_FIRST if has_kernel else ())
    boot = importlib.import_module("talos.machined.boot.boot")
    gc.freeze()
    gc.enable()
    context = boot.BootContext(logs=logs, zygote=zygote, zygote_pid=pid)
    run(partial(boot.boot, context), name=MACHINED, log=log)


def arm_if_guarded(log: Log) -> None:
    """Arm a watchdog when early init has done so: a PID 1 that hangs ends this boot.

    That is so when this system is started only once, or the start before this one was not confirmed. The
    self-check feeds it from the event loop, and disarms it in the end.
    """
    arguments = parse_cmdline(Path("/proc/cmdline").read_text(encoding="ascii", errors="replace"))
    if not (arguments.is_on(TRIAL_ARGUMENT) or StartCount().is_repeated()):
        return
    device = ""
    try:
        device = find_watchdog()
        timeout = arm_watchdog(device, TRIAL_TIMEOUT) if device else 0
    except OSError as error:
        log.warning("no watchdog guards this boot", device=device, reason=error.strerror)
    else:
        log.info("a watchdog guards this boot", device=device or "none", timeout=timeout)


def raise_limits(log: Log) -> None:
    """Raise the limit of open files as far as the kernel allows; children inherit it."""
    soft, hard = limits.getrlimit(limits.RLIMIT_NOFILE)
    for wanted in (NOFILE, hard):
        try:
            limits.setrlimit(limits.RLIMIT_NOFILE, (wanted, max(wanted, hard)))
        except (OSError, ValueError):
            continue
        return
    log.info("the limit of open files stays", soft=soft, hard=hard)


def share_memory() -> None:
    """Import the shared modules; frozen objects are not touched by the collector, so pages stay shared.

    What is garbage by then, some 200 KiB, is kept with them: finding it takes a fifth of the imports' time.
    """
    for name in SHARED_MODULES:
        importlib.import_module(name)
    number_versions()
    keep_objects()
