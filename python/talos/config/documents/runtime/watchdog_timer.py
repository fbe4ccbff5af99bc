"""``WatchdogTimerConfig``: the hardware watchdog."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting
from talos.config.values import Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogTimerConfig(Document):
    """The hardware watchdog."""

    kind: ClassVar[str] = "WatchdogTimerConfig"

    device: str | None = setting("the device")
    timeout: Duration | None = setting("time limit (default: 1m (min 10s))")
