"""``TrustedRootsConfig``: additional trusted certificate authorities."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedRootsConfig(Document):
    """Additional trusted certificate authorities."""

    kind: ClassVar[str] = "TrustedRootsConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the set", default="")
    certificates: str | None = setting("certificates in PEM")
