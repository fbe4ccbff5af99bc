"""``HTTPProbeConfig``: a check of the network by an HTTP request."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import UINT32, Document, setting
from talos.config.values import Duration, Url


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPProbeConfig(Document):
    """A check of the network by an HTTP request."""

    kind: ClassVar[str] = "HTTPProbeConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the probe", default="")
    interval: Duration | None = setting("time between two runs (default: 1s)")
    failure_threshold: int | None = setting("consecutive failures that count (default: 0)", bounds=UINT32)
    url: Url = setting("URL", default=Url(""), schemes=("http", "https"))
    timeout: Duration | None = setting("time limit (default: 10s)")
