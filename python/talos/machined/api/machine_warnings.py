"""What a config needs that this machine lacks: it is accepted, and may have no effect."""

from pathlib import Path

from talos.config.effective import machine as effective
from talos.config.model import Config

IOMMUS = Path("/sys/class/iommu")
# Upstream's text, with a remedy.
_NO_IOMMU = (
    "PCIDriverRebindConfig: IOMMU is not enabled, this config change might not have any effect; "
    "enable VT-d or AMD-Vi in the firmware"
)


def find_missing(config: Config) -> list[str]:
    """A line for each."""
    if effective.pci_drivers(config) and not (IOMMUS.is_dir() and any(IOMMUS.iterdir())):
        return [_NO_IOMMU]
    return []
