"""A watchdog in memory."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class MemoryWatchdog:
    """Remembers what was done; a device without time-outs above ``longest`` seconds."""

    device: str
    longest: int = 600
    timeout: int = 0
    fed: int = 0
    armed: bool = field(default=True)

    def set_timeout(self, seconds: int) -> int:
        """Take the time-out, as far as the device can."""
        self.timeout = min(seconds, self.longest)
        return self.timeout

    def feed(self) -> None:
        """Count."""
        assert self.armed
        self.fed += 1

    def disarm(self) -> None:
        """Remember."""
        self.armed = False
