"""``TCPProbeConfig``: a check of the network by a TCP connection."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import UINT32, Document, setting
from talos.config.values import Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class TCPProbeConfig(Document):
    """A check of the network by a TCP connection."""

    kind: ClassVar[str] = "TCPProbeConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the probe", default="")
    interval: Duration | None = setting("time between two runs (default: 1s)")
    failure_threshold: int | None = setting("consecutive failures that count (default: 0)", bounds=UINT32)
    endpoint: str = setting("host and port to connect to", default="")
    timeout: Duration | None = setting("time limit (default: 10s)")
