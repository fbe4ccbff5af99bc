"""Links picked by their properties."""

from dataclasses import dataclass

from talos.config.schema import Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkDeviceSelector(Section):
    """Selector of a link by its properties."""

    bus_path: str | None = setting("path on the bus; * matches anything")
    hardware_addr: str | None = setting("link-layer address")
    permanent_addr: str | None = setting("burnt-in link-layer address")
    pci_id: str | None = setting("vendor and product on the PCI bus", key="pciID")
    driver: str | None = setting("kernel driver")
    physical: bool | None = setting("only links with hardware")
