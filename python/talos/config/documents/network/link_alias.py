"""``LinkAliasConfig``: another name for the links that match."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Section, setting
from talos.config.values import Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSelector(Section):
    """Selector of links."""

    match: Expression | None = setting("expression that must be true")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkAliasConfig(Document):
    """Another name for the links that match."""

    kind: ClassVar[str] = "LinkAliasConfig"
    named: ClassVar[bool] = True

    name: str = setting("the alias", default="")
    selector: LinkSelector | None = setting("selector of links")
