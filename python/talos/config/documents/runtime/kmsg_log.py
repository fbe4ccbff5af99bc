"""``KmsgLogConfig``: where the kernel log is sent."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting
from talos.config.values import Url


@dataclass(frozen=True, slots=True, kw_only=True)
class KmsgLogConfig(Document):
    """Where the kernel log is sent."""

    kind: ClassVar[str] = "KmsgLogConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the destination", default="")
    url: Url | None = setting("URL", schemes=("tcp", "tls", "udp"))
