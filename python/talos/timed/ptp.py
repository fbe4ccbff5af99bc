"""PTP clocks of the machine, such as a hypervisor's (``/dev/ptp0``): read without a network."""

import time
from collections.abc import Callable, Sequence

from talos.system.clock import open_ptp, read_ptp
from talos.system.logging import Log
from talos.timed.ntp.packet import Sample

RETRY = 10.0
"""Seconds until a device that can't be read is tried again."""

type Read = Callable[[str], tuple[float, float]]


def read_device(device: str) -> tuple[float, float]:
    """How much a device's clock is ahead of the system clock, and the error of the reading. OSError."""
    with open_ptp(device) as clock:
        return read_ptp(clock)


class PtpDevices:
    """The configured devices as sources of time."""

    def __init__(self, devices: Sequence[str], log: Log, read: Read = read_device) -> None:
        self._devices = devices
        self._log = log
        self._read = read

    async def query(self) -> list[Sample]:
        """One sample of each device; reading takes microseconds."""
        samples: list[Sample] = []
        for device in self._devices:
            try:
                offset, error = self._read(device)
            except OSError as failure:
                self._log.once(f"{device} can't be read: {failure.strerror}", key=device)
                continue
            self._log.forget(device)
            samples.append(Sample(server=device, local=time.time(), offset=offset, delay=0.0, distance=error))
        return samples

    @property
    def retry(self) -> float:
        """Seconds until the next try."""
        return RETRY
