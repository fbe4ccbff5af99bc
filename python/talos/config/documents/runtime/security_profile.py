"""``SecurityProfileConfig``: optional hardening."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Applies, Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityProfileConfig(Document):
    """Optional hardening."""

    kind: ClassVar[str] = "SecurityProfileConfig"
    applies: ClassVar[Applies] = Applies.REBOOT

    workload_isolation: bool | None = setting("keep workloads apart from the system")
