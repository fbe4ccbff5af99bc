"""The data of the summary screen."""

from dataclasses import dataclass

LINES_KEPT = 100
"""Log lines that may be shown: more than any screen has rows for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLine:
    """A service's state in short."""

    id: str
    state: str
    is_good: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The machine at one point in time. Memory is in MiB, ``cpu_percent`` negative while it is not known.

    ``fingerprint`` is that of the certificate in maintenance mode, empty in any other.
    """

    hostname: str = ""
    version: str = ""
    stage: str = ""
    ready: bool = False
    missing: tuple[str, ...] = ()
    machine_type: str = ""
    uuid: str = ""
    serial: str = ""
    secure_boot: bool = False
    signing_key: str = ""
    """The fingerprint of the only key whose images the firmware starts, where it is known."""
    addresses: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    resolvers: tuple[str, ...] = ()
    services: tuple[ServiceLine, ...] = ()
    cpu_percent: int = -1
    memory_used: int = 0
    memory_total: int = 0
    maintenance: bool = False
    fingerprint: str = ""
    log: tuple[str, ...] = ()
