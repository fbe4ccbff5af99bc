"""``HostnameConfig``: the node's name."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class HostnameConfig(Document):
    """The node's name."""

    kind: ClassVar[str] = "HostnameConfig"

    auto: str | None = setting("derive the name from the machine's identity", allowed=("stable", "off"))
    hostname: str | None = setting("fixed name of the node", example="node-1")
