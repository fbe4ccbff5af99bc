"""``NetworkDefaultActionConfig``: what the firewall does with packets that no rule matches."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkDefaultActionConfig(Document):
    """What the firewall does with packets that no rule matches."""

    kind: ClassVar[str] = "NetworkDefaultActionConfig"

    ingress: str | None = setting("action for incoming packets", allowed=("accept", "block"))
