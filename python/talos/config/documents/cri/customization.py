"""``CRICustomizationConfig``: a piece of containerd's configuration."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Applies, Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class CRICustomizationConfig(Document):
    """A piece of containerd's configuration."""

    kind: ClassVar[str] = "CRICustomizationConfig"
    named: ClassVar[bool] = True
    applies: ClassVar[Applies] = Applies.RESTART

    name: str = setting("name of the piece", default="")
    content: str | None = setting("TOML of the piece", private=True)
