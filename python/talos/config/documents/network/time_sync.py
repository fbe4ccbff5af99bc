"""``TimeSyncConfig``: synchronization of the node's clock."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Section, setting
from talos.config.values import Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class NTPConfig(Section):
    """By NTP."""

    servers: tuple[str, ...] | None = setting("time servers (default: time.cloudflare.com)")
    use_nts: bool | None = setting("authenticate servers with NTS (default: true)", key="useNTS")


@dataclass(frozen=True, slots=True, kw_only=True)
class PTPConfig(Section):
    """By PTP."""

    devices: tuple[str, ...] | None = setting("PTP devices")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSyncConfig(Document):
    """Synchronization of the node's clock."""

    kind: ClassVar[str] = "TimeSyncConfig"

    enabled: bool | None = setting("keep the clock (default: true)")
    boot_timeout: Duration | None = setting("how long booting waits for the time (default: infinity)")
    ntp: NTPConfig | None = setting("by NTP")
    ptp: PTPConfig | None = setting("by PTP")
