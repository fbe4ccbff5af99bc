"""``EventSinkConfig``: where the node's events are sent."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSinkConfig(Document):
    """Where the node's events are sent."""

    kind: ClassVar[str] = "EventSinkConfig"

    endpoint: str | None = setting("address and port to send to")
