"""The devices and the subscribers to their changes: coldplug, events, rescans on request."""

from collections.abc import Callable
from functools import partial

import trio

from talos.config.udev_rules import Rule
from talos.system.block.sysfs import Sysfs
from talos.system.net.uevents import EventsLostError, Uevents
from talos.udevd.devices import Devices

SETTLE_DELAY = 0.1
"""Seconds without an event after which the kernel's initial detection counts as complete."""
SETTLE_TIMEOUT = 10.0
"""Maximum seconds to wait for such a pause."""
USB_TIMEOUT = 5.0
"""Seconds to wait for the disk of a USB device: its driver waits one second by itself."""
ANNOUNCE_TIMEOUT = 30.0
"""Seconds in which permissions wait until the State has the disks: they are not needed that early."""
_USB_DRIVERS = frozenset({"usb-storage", "uas"})


class Hub:
    """Owns the table of devices.

    ``settled`` is set when disks and interfaces are as the kernel found them, ``complete`` when the
    permissions of all other nodes are right, too, ``announced`` when the State has them.
    """

    def __init__(self, devices: Devices, uevents: Uevents) -> None:
        self.devices = devices
        self.settled = trio.Event()
        self.complete = trio.Event()
        self.announced = trio.Event()
        self._uevents = uevents
        self._turn = trio.Lock()
        self._listeners: list[Callable[[], None]] = []

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` after every change; return a function that ends the subscription."""
        self._listeners.append(listener)
        return partial(self._listeners.remove, listener)

    async def run(self, settle_time: float = 0.0) -> None:
        """Coldplug, then follow the events. ``settle_time``: seconds to wait beyond what is needed."""
        begin = trio.current_time()
        await self._do(self.devices.scan_first)
        seen = trio.current_time()
        await self._settle(settle_time)
        log = self.devices.ports.log
        log.info(f"devices found in {seen - begin:.2f} s, settled {trio.current_time() - seen:.2f} s later")
        self.settled.set()
        self._notify()
        with trio.move_on_after(ANNOUNCE_TIMEOUT):
            await self.announced.wait()
        await self._do(self.devices.scan_rest)
        self.complete.set()
        while True:
            if await self._follow():
                self._notify()

    async def rescan(self) -> None:
        """Probe all disks again and notify listeners."""
        await self._do(self.devices.rescan)
        self._notify()

    async def set_rules(self, rules: tuple[Rule, ...]) -> None:
        """Replace the rules and apply them to every device."""
        if rules == self.devices.rules:
            return
        self.devices.rules = rules
        await self._do(self.devices.scan, "change")
        self._notify()

    async def _settle(self, extra: float) -> None:
        limit = trio.current_time() + SETTLE_TIMEOUT
        usb_limit = trio.current_time() + USB_TIMEOUT
        while trio.current_time() < limit:
            with trio.move_on_after(SETTLE_DELAY) as quiet:
                await self._follow()
            missing = await trio.to_thread.run_sync(find_missing_disks, self.devices.ports.sysfs)
            if quiet.cancelled_caught and not (missing and trio.current_time() < usb_limit):
                break
        with trio.move_on_after(extra):
            while extra > 0:
                await self._follow()

    async def _follow(self) -> bool:
        """Process the next batch of events; true when something changed."""
        try:
            events = await self._uevents.receive()
        except EventsLostError as error:
            self.devices.ports.log.warning(f"events were lost ({error}): looking at every device")
            await self._do(self.devices.scan, "change")
            return True
        return await self._do(self.devices.handle, events)

    async def _do[**P, R](self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """In a thread: a read of a broken disk may take minutes."""
        # A started thread is awaited even if cancelled: a partial scan would leave the table inconsistent.
        async with self._turn:
            return await trio.to_thread.run_sync(partial(work, *args, **kwargs))

    def _notify(self) -> None:
        for listener in list(self._listeners):
            listener()


def find_missing_disks(sysfs: Sysfs) -> list[str]:
    """USB interfaces that are disks by their driver but have none yet."""
    disks = [device.path for device in sysfs.listing("class/block")]
    return [
        device.kernel_name
        for device in sysfs.listing("bus/usb/devices")
        if device.driver in _USB_DRIVERS and not any(path.startswith(device.path) for path in disks)
    ]
