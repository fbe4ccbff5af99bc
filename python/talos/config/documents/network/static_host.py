"""``StaticHostConfig``: names of an address in /etc/hosts."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticHostConfig(Document):
    """Names of an address in /etc/hosts."""

    kind: ClassVar[str] = "StaticHostConfig"
    named: ClassVar[bool] = True

    name: str = setting("the address", default="")
    hostnames: tuple[str, ...] | None = setting("names of the address")
