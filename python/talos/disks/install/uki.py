"""A system that systemd-boot starts: a UKI on EFI, signed where firmware checks that."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import override

from talos.disks.install.job import SLOT, Job, System, write_file
from talos.system.block.layout import UKI_EFI, UKI_INSTALLED, Area
from talos.system.files import hash_file
from talos.system.pe import Program
from talos.upgrade.slots.systemd_boot.entry import FOLDER, LOADER_PATH, name_slot
from talos.upgrade.slots.systemd_boot.firmware import Firmware
from talos.upgrade.slots.systemd_boot.settings import INITIAL, PATH, make_settings

_PIECE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EfiFile:
    """A program to be written: a part of a file. ``sha256`` in hexadecimal, ``where`` for messages."""

    where: str
    path: Path
    start: int = 0
    size: int
    sha256: str

    def read(self) -> Iterator[bytes]:
        """Its bytes, in pieces."""
        with self.path.open("rb") as file:
            program = Program(file, self.size, self.start)
            for place in range(0, self.size, _PIECE):
                yield program.read(place, min(_PIECE, self.size - place))

    def check(self, firmware: Firmware) -> None:
        """UserError when firmware would not start it."""
        with self.path.open("rb") as file:
            firmware.check(Program(file, self.size, self.start), self.where)


@dataclass(frozen=True, slots=True, kw_only=True)
class UkiSystem(System):
    """A UKI, and the systemd-boot that starts it. ``check_image`` compares it with what it should be."""

    image: EfiFile
    loader: EfiFile
    check_image: Callable[[], None] = lambda: None
    firmware: Firmware = field(default_factory=Firmware)

    @property
    @override
    def areas(self) -> tuple[Area, ...]:
        return UKI_INSTALLED

    @property
    @override
    def missing(self) -> tuple[str, str]:
        return "", ""

    @override
    def check(self) -> None:
        self.check_image()
        for file in (self.image, self.loader):
            file.check(self.firmware)

    @override
    def copy(self, job: Job) -> None:
        if job.plan.request.arguments:
            job.log("machine.install.extraKernelArgs: not used, a UKI has its own, which are signed")
        with job.target.mount(job.places[UKI_EFI.label]) as root:
            write_file(root / FOLDER / name_slot(SLOT), self.image.read())
            write_file(root / PATH, [_SETTINGS])

    @override
    def is_written(self, job: Job) -> bool:
        with job.target.mount(job.places[UKI_EFI.label], read_only=True) as root:
            return (root / PATH).read_bytes() == _SETTINGS and hash_file(
                root / FOLDER / name_slot(SLOT)
            ) == self.image.sha256

    @override
    def write_boot_loader(self, job: Job) -> None:
        with job.target.mount(job.places[UKI_EFI.label]) as root:
            write_file(root / LOADER_PATH, self.loader.read())


_SETTINGS = make_settings(INITIAL, SLOT).encode()
