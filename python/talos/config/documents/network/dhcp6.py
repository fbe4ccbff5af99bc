"""``DHCPv6Config``: DHCP for IPv6 on a link."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import UINT32, Document, setting
from talos.config.values import HardwareAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class DHCPv6Config(Document):
    """DHCP for IPv6 on a link."""

    kind: ClassVar[str] = "DHCPv6Config"
    named: ClassVar[bool] = True

    name: str = setting("link to configure", default="")
    route_metric: int | None = setting("priority of routes from DHCP (default: 1024)", bounds=UINT32)
    ignore_hostname: bool | None = setting("ignore the name from DHCP")
    client_identifier: str | None = setting(
        "how the node identifies itself (default: mac)", allowed=("none", "mac", "duid")
    )
    duid_raw: HardwareAddress | None = setting("identifier in hexadecimal")
