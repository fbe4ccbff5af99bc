"""The kernel's events about devices.

They come as paths that something happened to: a reader looks at sysfs, which is right
even when events were merged, came late or were lost. So a lost message costs a full scan, no more.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import trio

BUFFER_BYTES = 32 << 20
"""Of the socket: a machine with thousands of devices announces all of them at once."""
_BURST_DELAY = 0.005  # seconds
"""How long to wait for the rest of a burst."""
_MAX_BURST = 4096


class EventsLostError(Exception):
    """The socket's buffer was full: anything may have happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uevent:
    """``action`` is ``add``, ``remove``, ``change``, ``move``, ``bind``, ``unbind``, ..."""

    action: str
    path: str
    subsystem: str = ""
    old_path: str = ""


class Uevents(Protocol):
    """A source of events; it has listened since it was made."""

    async def receive(self) -> Sequence[Uevent]:
        """The next burst, at least one. EventsLostError once per loss."""
        ...


class _KernelUevents:
    """From netlink's ``kernel`` group, by libudev."""

    def __init__(self, monitor: Any) -> None:
        self._monitor = monitor

    async def receive(self) -> Sequence[Uevent]:
        """The next burst."""
        burst: list[Uevent] = []
        while not burst:
            await trio.lowlevel.wait_readable(self._monitor.fileno())
            await trio.sleep(_BURST_DELAY)
            self._drain(burst)
        return burst

    def _drain(self, burst: list[Uevent]) -> None:
        while len(burst) < _MAX_BURST:
            try:
                device = self._monitor.poll(timeout=0)
            except OSError as error:  # ENOBUFS; or another one: messages are lost
                raise EventsLostError(str(error)) from None
            if device is None:
                return
            burst.append(
                Uevent(
                    action=device.action or "",
                    path=device.device_path,
                    subsystem=device.subsystem or "",
                    old_path=device.properties.get("DEVPATH_OLD", ""),
                )
            )


@asynccontextmanager
async def open_uevents() -> AsyncGenerator[Uevents]:
    """Listen from now on. Needs CAP_NET_ADMIN for the large buffer.

    pyudev is imported here: the container platform has no listener and does without it.
    """
    pyudev: Any = await trio.to_thread.run_sync(_load)
    context = pyudev.Context()
    monitor = pyudev.Monitor.from_netlink(context, source="kernel")
    monitor.set_receive_buffer_size(BUFFER_BYTES)
    monitor.start()
    yield _KernelUevents(monitor)


def _load() -> Any:
    import pyudev

    return pyudev
