"""udevd: devices and their names, from the kernel to ``/dev`` and to the State.

It does not run on the container platform, whose devices are its host's. Firmware is not loaded and
modules are not either: the kernel has everything built in.
"""

from functools import partial
from pathlib import Path

import trio

from talos.process.host import mirrored_state, run_controller_daemon
from talos.process.run import Daemon, run
from talos.resource import ids
from talos.resource.changes import wait_for
from talos.system.block.ata import identify
from talos.system.block.sysfs import Sysfs
from talos.system.logging import Log
from talos.system.net.interfaces import rename_link
from talos.system.net.uevents import open_uevents
from talos.system.proc.cmdline import Cmdline, parse_cmdline
from talos.udevd.blocks import probe_safely
from talos.udevd.controllers import make_controllers
from talos.udevd.devices import Devices, Ports
from talos.udevd.hub import Hub

CMDLINE = Path("/proc/cmdline")
SETTLE_ARGUMENT = "talos.device.settle_time"
DEV = Path("/dev")


async def serve_devices(daemon: Daemon) -> None:
    """Run the devices and their controllers until the daemon stops; ready when the State has them."""
    arguments = parse_cmdline(await trio.Path(CMDLINE).read_text(encoding="utf-8"))
    ports = Ports(
        sysfs=Sysfs(),
        dev=DEV,
        prober=partial(probe_safely, DEV),
        identify=identify,
        rename=rename_link,
        log=daemon.log,
        rename_links=arguments.first("net.ifnames", "1") != "0",
    )
    async with open_uevents() as uevents:
        hub = Hub(Devices(ports), uevents)
        controllers = make_controllers(hub, daemon.log)
        async with mirrored_state(daemon, controllers) as state, trio.open_nursery() as nursery:

            async def settle() -> None:
                await wait_for(state, *ids.DEVICES_STATUS, lambda status: status.spec.ready)
                await hub.complete.wait()

            nursery.start_soon(hub.run, parse_settle_time(arguments, daemon.log))
            await run_controller_daemon(daemon, state, controllers, settle=settle)
            nursery.cancel_scope.cancel()


def parse_settle_time(arguments: Cmdline, log: Log) -> float:
    """Seconds of ``talos.device.settle_time``; a malformed one is named and ignored."""
    text = arguments.first(SETTLE_ARGUMENT)
    if not text:
        return 0.0
    from talos.config.values import Duration

    try:
        duration = Duration(text)
        duration.check()
    except ValueError as error:
        log.warning(f'kernel argument {SETTLE_ARGUMENT}="{text}" is ignored: {error}')
        return 0.0
    return duration.seconds


def main() -> None:
    """Entry of the daemon."""
    run(serve_devices, name="udevd")
