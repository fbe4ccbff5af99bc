"""What PID 1 does before its event loop: the kernel's filesystems, and the zygote.

The imports here are what every daemon needs: forked now, it is in memory once. What only
PID 1 or only a daemon needs is imported after the fork, on both sides at the same time.
"""

import gc
import importlib
from functools import partial

import talos.daemon.server
import talos.daemon.state
import talos.resource.runtime
import talos.resource.service  # noqa: F401 - see above
from talos.daemon.logging import Log
from talos.daemon.run import run
from talos.machined.console import MACHINED, make_console, make_sink
from talos.machined.filesystems import mount_pseudo
from talos.machined.handover import is_container
from talos.machined.logs import LogStore
from talos.machined.zygote import fork_zygote
from talos.system.mounts import KernelMounts


def begin() -> None:
    """Mount, fork the zygote while nothing of gRPC exists, then boot."""
    in_container = is_container()
    logs = LogStore()
    log = Log({"service": MACHINED}, write=make_sink(logs, MACHINED, make_console(is_container=in_container)))
    mount_pseudo(KernelMounts(), is_container=in_container, log=log)
    share_memory()
    zygote, pid = fork_zygote()
    boot = importlib.import_module("talos.machined.boot")
    beginning = boot.Beginning(logs=logs, zygote=zygote, zygote_pid=pid)
    run(partial(boot.boot, beginning), name=MACHINED, log=log)


def share_memory() -> None:
    """What is loaded by now stays where it is: the collector would write to all of it."""
    for name in ("grpc.aio", "grpc._cython.cygrpc"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
