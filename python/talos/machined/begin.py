"""What PID 1 does before its event loop: the kernel's filesystems, and the zygote."""

import gc
from functools import partial

from talos.daemon.logging import Log
from talos.daemon.run import run
from talos.machined.boot import boot
from talos.machined.console import MACHINED, make_console, make_sink
from talos.machined.filesystems import mount_pseudo
from talos.machined.logs import LogStore
from talos.machined.make_machine import Beginning
from talos.machined.platform import HANDOVER
from talos.machined.zygote import fork_zygote
from talos.system.mounts import KernelMounts


def begin() -> None:
    """Mount, fork the zygote while nothing of gRPC exists, then boot."""
    # /proc may not be there yet, so the kernel's command line can't be asked.
    is_container = (HANDOVER / "cmdline").exists()
    logs = LogStore()
    log = Log({"service": MACHINED}, write=make_sink(logs, MACHINED, make_console(is_container=is_container)))
    mount_pseudo(KernelMounts(), is_container=is_container, log=log)
    gc.collect()
    gc.freeze()
    zygote, pid = fork_zygote()
    beginning = Beginning(logs=logs, zygote=zygote, zygote_pid=pid)
    run(partial(boot, beginning), name=MACHINED, log=log)
