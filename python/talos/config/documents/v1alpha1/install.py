"""``machine.install``."""

from dataclasses import dataclass

from talos.config.schema import Section, setting
from talos.config.values import Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallDiskSelector(Section):
    """Disk to install to, by its properties."""

    size: Scalar | None = setting("size to compare with, such as >= 1TB")
    name: str | None = setting("kernel's name")
    model: str | None = setting("model")
    serial: str | None = setting("serial number")
    modalias: str | None = setting("modalias of the device")
    uuid: str | None = setting("unique id")
    wwid: str | None = setting("world-wide id")
    type: str | None = setting("kind of disk", allowed=("ssd", "hdd", "nvme", "sd"))
    bus_path: str | None = setting("path on the bus; * matches anything")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallExtensionConfig(Section):
    """System extensions to add."""

    image: str = setting("container image", default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallConfig(Section):
    """Installation of the system."""

    disk: str | None = setting("disk to install to")
    disk_selector: InstallDiskSelector | None = setting("disk to install to, by its properties")
    extra_kernel_args: tuple[str, ...] | None = setting("further kernel arguments")
    image: str | None = setting("installer image")
    extensions: tuple[InstallExtensionConfig, ...] | None = setting("system extensions to add")
    bootloader: bool | None = setting("write the boot loader")
    wipe: bool | None = setting("wipe the disk first (default: true)")
    legacy_bios_support: bool | None = setting(
        "mark the partition as bootable for old firmware", key="legacyBIOSSupport"
    )
    grub_use_uki_cmdline: bool | None = setting(
        "take GRUB's kernel arguments from the image", key="grubUseUKICmdline"
    )
