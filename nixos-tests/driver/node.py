"""A test's machines: plain data, from which QEMU's arguments are made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Boot = Literal["pvh", "bios", "uefi"]
"""How a machine starts: QEMU hands our kernel over, which is fast, or real firmware and what it finds."""


CODE_CACHE = 160
"""MiB of translated code that an emulator keeps; why, is in :mod:`driver.accelerator`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A disk that outlives power cuts: blank, of a ``size`` such as ``8G``, or a layer over an asset.

    Its serial number in the machine is its name in the test.
    """

    size: str = ""
    asset: str = ""
    file: str = ""
    """Path below the asset, when that is a folder."""
    sector: Literal[512, 4096] = 512
    bus: Literal["virtio", "nvme"] = "virtio"
    raw: bool = False
    """A plain file, which the test may read, and change while the machine is off: blank, or a saved disk."""
    recorded: bool = False
    """Served by the test itself, which has a record of all writes and can let them fail; it is blank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine of a test."""

    boot: Boot = "pvh"
    secure_boot: bool = False
    """UEFI that starts what is signed only, once it has keys: at first it has none, and is in setup mode."""
    memory: int = 1536
    """MiB."""
    processors: int = 1
    """More are emulated by threads that wait for one another: see docs/vm-tests.md."""
    code_cache: int = CODE_CACHE
    """MiB of translated code: a machine whose programs have more translates it again and again."""
    arguments: tuple[str, ...] = ()
    """Kernel arguments on top of ours, for machines that boot by ``pvh``."""
    without: tuple[str, ...] = ()
    """Kernel arguments of ours that are left out."""
    hands_over_kernel: bool = False
    """Give the kernel's own file to the system too, as boot loaders do, so that it can install itself."""
    disks: Mapping[str, Disk] = field(default_factory=dict[str, Disk])
    cdrom: str = ""
    """The asset in the drive."""
    watchdog: bool = False
    """A device that resets the machine when it is not fed: the i6300esb of QEMU and libvirt."""
    lan: bool = False
    """A second network card, on the network that the test's machines share."""
    address: str = ""
    """The only card is on the network that the machines share, which leads to the test as one of its own
    would; the machine is expected to give itself this address."""
    ports: tuple[int, ...] = ()
    """Of a machine with an ``address``: what the test reaches beside the API."""
    netboot: bool = False
    """The network card comes first in the firmware's boot order, after disks that can be booted."""
    network: tuple[str, ...] = ()
    """More arguments for the first card's network, such as ``bootfile=...``; see QEMU's ``-netdev user``."""
    uuid: str = ""
    tpm: bool = False
    """A TPM 2.0, whose keys outlive power cuts. Firmware measures into it; without firmware it is blank."""
    guest_agent: bool = False
    """A port for QEMU's guest agent."""


def slow_seconds(node: Node) -> float:
    """Seconds from power on to the API on emulated processors, generously; firmware takes longer."""
    return 150 if node.boot == "pvh" else 240
