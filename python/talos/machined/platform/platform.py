"""The platform: container, where the launcher passes data in a directory, or metal."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.machined.node.ports.node import Platform
from talos.machined.platform.arguments import METAL, PLATFORM, PLATFORMS, find_hostname
from talos.machined.platform.handover import HANDOVER, SLOTS
from talos.machined.platform.network import parse_network
from talos.system.files import Files
from talos.system.proc.cmdline import Cmdline, parse_cmdline
from talos.upgrade.slots.folder import SlotFolder

CMDLINE = "/proc/cmdline"
CLOUD = "cloud"
"""The mode of a machine of a cloud."""
_NEED_DISKS = frozenset(
    {
        "machine.MachineService/MetaWrite",
        "machine.MachineService/MetaDelete",
        "machine.LifecycleService/Install",
        "machine.LVMService/LogicalVolumeRemove",
        "machine.LVMService/PhysicalVolumeRemove",
        "machine.LVMService/VolumeGroupRemove",
        "machine.MDService/Destroy",
    }
)


class PlatformPort(Platform, Protocol):
    """A platform with the methods for the boot sequence."""

    @property
    def arguments(self) -> Cmdline:
        """The command line, parsed."""
        ...

    @property
    def slots(self) -> SlotFolder | None:
        """The folder with the slots and META; None where they are on a disk."""
        ...

    def load_config(self) -> bytes:
        """The machine config that the platform brings, empty when it brings none."""
        ...

    def remove_config(self) -> None:
        """Remove the platform's copy of the config, if possible, once it is stored in STATE."""
        ...

    def load_network(self) -> PlatformConfigSpec:
        """The network config that the platform brings."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlatform:
    """A node in namespaces of its own; its launcher has filled ``handover``."""

    arguments: Cmdline
    handover: Path
    name: str = "container"
    mode: str = "container"
    has_kernel: bool = False
    has_disks: bool = False

    @property
    def cmdline(self) -> str:
        """What takes the place of the kernel's command line."""
        return self.arguments.text

    def allows(self, method: str) -> bool:
        """Whether a method needs no partitions; the launcher does restart nodes, from either of two slots."""
        return method not in _NEED_DISKS

    @property
    def slots(self) -> SlotFolder:
        """The folder that the launcher starts this node from."""
        return SlotFolder(self.handover / SLOTS)

    def load_config(self) -> bytes:
        """The machine config that the launcher brings, empty when it brings none."""
        try:
            return (self.handover / "config.yaml").read_bytes()
        except FileNotFoundError:
            return b""

    def remove_config(self) -> None:
        """Remove the launcher's copy: it is in STATE now."""
        (self.handover / "config.yaml").unlink(missing_ok=True)

    def load_network(self) -> PlatformConfigSpec:
        """The network config that the launcher brings."""
        try:
            text = (self.handover / "network.yaml").read_text(encoding="utf-8")
        except FileNotFoundError:
            text = ""
        return parse_network(text, find_hostname(self.arguments), platform=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetalPlatform:
    """A machine, virtual or not. Its config comes from disk or over the network."""

    arguments: Cmdline
    name: str = METAL
    has_kernel: bool = True
    has_disks: bool = True
    slots: None = None

    @property
    def mode(self) -> str:
        """``metal``, or ``cloud`` on any other platform than metal itself."""
        return METAL if self.name == METAL else CLOUD

    @property
    def cmdline(self) -> str:
        """The kernel's command line."""
        return self.arguments.text

    def allows(self, method: str) -> bool:
        """Every method makes sense on a machine."""
        del method
        return True

    def load_config(self) -> bytes:
        """Empty: ``talos.config`` names the source, see ``config_sources``."""
        return b""

    def remove_config(self) -> None:
        """There is no copy."""

    def load_network(self) -> PlatformConfigSpec:
        """None of its own."""
        return parse_network("", find_hostname(self.arguments), platform=self.name)


def detect_platform(files: Files, handover: Path = HANDOVER) -> PlatformPort:
    """Detect the platform."""
    replacement = str(handover / "cmdline")
    if files.exists(replacement):
        return ContainerPlatform(arguments=parse_cmdline(files.read(replacement)), handover=handover)
    arguments = parse_cmdline(files.read(CMDLINE))
    name = arguments.first(PLATFORM)
    return MetalPlatform(arguments=arguments, name=name if name in PLATFORMS else METAL)
