"""A system that GRUB starts: kernel and initramfs on BOOT, GRUB for old firmware and for UEFI."""

import os
from dataclasses import dataclass
from typing import override

from talos.disks.install.job import SLOT, Job, System, write_file
from talos.disks.install.source import Source
from talos.system.block.layout import BIOS, BOOT, EFI, INSTALLED, Area
from talos.system.files import hash_file
from talos.upgrade.slots.grub.config import INITRAMFS, KERNEL, PATH, Entry, make_arguments, make_config
from talos.upgrade.slots.grub.loader import EFI_PATH, check_bios, write_bios

_NO_KERNEL = "the kernel image was not handed over by the boot loader"
_NO_KERNEL_HINT = "boot from the ISO, or have iPXE add it: initrd --name vmlinuz <url> /vmlinuz"


@dataclass(frozen=True, slots=True)
class GrubSystem(System):
    """A source with GRUB."""

    source: Source

    @property
    @override
    def areas(self) -> tuple[Area, ...]:
        return INSTALLED

    @property
    @override
    def missing(self) -> tuple[str, str]:
        return ("", "") if self.source.has_kernel else (_NO_KERNEL, _NO_KERNEL_HINT)

    @override
    def check(self) -> None:
        self.source.check()

    @override
    def copy(self, job: Job) -> None:
        """The boot loader's config is written last, so that all files it names are complete."""
        with job.target.mount(job.places[BOOT.label]) as root:
            write_file(root / SLOT / KERNEL, self.source.read_kernel())
            write_file(root / SLOT / INITRAMFS, self.source.read_initramfs())
            write_file(root / PATH, [self._make_config(job).encode()], mode=0o600)

    @override
    def is_written(self, job: Job) -> bool:
        """A kernel without a local copy is not compared."""
        source = self.source
        with job.target.mount(job.places[BOOT.label], read_only=True) as root:
            slot = root / SLOT
            return (
                (root / PATH).read_text(encoding="utf-8") == self._make_config(job)
                and (slot / KERNEL).stat().st_size > 0
                and (not source.has_kernel or hash_file(slot / KERNEL) == source.hash_kernel())
                and hash_file(slot / INITRAMFS) == source.hash_initramfs()
            )

    @override
    def write_boot_loader(self, job: Job) -> None:
        boot = self.source.boot
        with job.target.mount(job.places[EFI.label]) as root:
            write_file(root / EFI_PATH, [boot.efi])
        reason = check_bios(job.target.sector_size)
        if reason:
            job.log(f"no boot loader for old firmware: {reason}")
            return
        with job.target.open() as file:
            write_bios(file, boot, job.places[BIOS.label], bootable=job.plan.request.legacy_bios)
            os.fsync(file.fileno())

    def _make_config(self, job: Job) -> str:
        arguments = make_arguments(self.source.boot.cmdline, job.plan.request.arguments)
        return make_config([Entry(slot=SLOT, version=self.source.version, arguments=arguments)], SLOT)
