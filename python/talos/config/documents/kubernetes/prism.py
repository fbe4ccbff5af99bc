"""``KubePrismConfig``: the local load balancer in front of all API servers."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import PORT, Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class KubePrismConfig(Document):
    """The local load balancer in front of all API servers."""

    kind: ClassVar[str] = "KubePrismConfig"

    port: int = setting("port on localhost", default=0, bounds=PORT)
    tls_server_name: str | None = setting("name expected in the server's certificate")
