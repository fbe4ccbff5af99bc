"""Writing a system to a disk.

Safe against power cuts: META, which marks an installation, is erased first and written last. Until it is
written, the disk counts as not installed and its partitions as those of an interrupted installation,
which can be repeated. The boot loader is written after everything that it starts has been verified.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from talos.disks.install.plan import InstallPlan
from talos.disks.install.source import Source
from talos.system.block.layout import BIOS, BOOT, EFI, MARKS, META, SYSTEM, Placed, make_table, place_areas
from talos.system.block.meta import make_meta
from talos.system.block.target import Target
from talos.system.block.wipe import wipe_edges
from talos.system.errors import UserError
from talos.system.files import flush_folder, hash_file, replace_durably
from talos.upgrade.slots.grub.config import INITRAMFS, KERNEL, PATH, Entry, make_arguments, make_config
from talos.upgrade.slots.grub.loader import EFI_PATH, check_bios, write_bios
from talos.upgrade.state import SLOTS

SLOT = SLOTS[0]
_NO_KERNEL = "the kernel image was not handed over by the boot loader"
_NO_KERNEL_HINT = "boot from the ISO, no UKI, or have iPXE add it: initrd --name vmlinuz <url> /vmlinuz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """An installation: source, target and log. ``meta`` are the first values of META."""

    plan: InstallPlan
    source: Source
    target: Target
    log: Callable[[str], None]
    meta: Mapping[int, bytes] = field(default_factory=dict[int, bytes])

    @property
    def places(self) -> Mapping[str, Placed]:
        """The partitions by label, those that are made later among them."""
        return {placed.area.label: placed for placed in place_areas(SYSTEM)}

    @property
    def config(self) -> str:
        """GRUB's config."""
        arguments = make_arguments(self.source.boot.cmdline, self.plan.request.arguments)
        return make_config([Entry(slot=SLOT, version=self.source.version, arguments=arguments)], SLOT)


@dataclass(frozen=True, slots=True)
class Step:
    """A part of an installation; after each there may be a power cut."""

    text: str
    run: Callable[[Job], Awaitable[None]]


async def run_install(job: Job, steps: "Sequence[Step] | None" = None) -> None:
    """Install. UserError for what a user can correct; OSError when the disk fails."""
    await trio.to_thread.run_sync(job.source.check)
    written = job.plan.disk.is_unfinished and await trio.to_thread.run_sync(_is_written, job)
    if written:
        job.log("everything but the mark of an installation is on the disk already")
    elif not job.source.has_kernel:
        raise UserError(_NO_KERNEL, where="install", hint=_NO_KERNEL_HINT)
    chosen = steps or (LAST_STEPS if written else STEPS)
    for number, step in enumerate(chosen, 1):
        job.log(f"{step.text} ({number}/{len(chosen)})")
        await step.run(job)
    job.log(f"{job.plan.disk.path} is installed")


async def _erase(job: Job) -> None:
    await trio.to_thread.run_sync(_erase_disk, job)


def _erase_disk(job: Job) -> None:
    """Every known signature, with what marks an older installation first."""
    disk = job.plan.disk
    with job.target.open() as file:
        descriptor = file.fileno()
        parts = sorted(disk.contents, key=lambda part: part.label not in MARKS)
        for part in parts:
            wipe_edges(descriptor, part.offset, part.size)
        os.fsync(descriptor)
        # Where nothing is known to be there may still be something, and the new partitions would show it.
        for placed in job.places.values():
            wipe_edges(descriptor, placed.start, placed.area.size)
        wipe_edges(descriptor, 0, disk.spec.size)
        os.fsync(descriptor)


async def _partition(job: Job) -> None:
    await job.target.write_table(make_table(place_areas(), sector_size=job.target.sector_size))


async def _format(job: Job) -> None:
    for area in (EFI, BOOT):
        await job.target.make_filesystem(job.places[area.label])


async def _copy(job: Job) -> None:
    await trio.to_thread.run_sync(_copy_system, job)


def _copy_system(job: Job) -> None:
    """The boot loader's config is written last, so that all files it names are complete."""
    with job.target.mount(job.places[BOOT.label]) as root:
        _write_file(root / SLOT / KERNEL, job.source.read_kernel())
        _write_file(root / SLOT / INITRAMFS, job.source.read_initramfs())
        _write_file(root / PATH, [job.config.encode()], mode=0o600)


async def _verify(job: Job) -> None:
    if not await trio.to_thread.run_sync(_is_written, job):
        raise UserError(
            "what was written reads differently",
            where=job.target.path,
            hint="the disk is broken, use another",
        )


def _is_written(job: Job) -> bool:
    """Whether the slot holds this very system; a kernel without a local copy is not compared."""
    source = job.source
    try:
        with job.target.mount(job.places[BOOT.label], read_only=True) as root:
            slot = root / SLOT
            return (
                (root / PATH).read_text(encoding="utf-8") == job.config
                and (slot / KERNEL).stat().st_size > 0
                and (not source.has_kernel or hash_file(slot / KERNEL) == source.hash_kernel())
                and hash_file(slot / INITRAMFS) == source.hash_initramfs()
            )
    except OSError as error:
        job.log(f"what is on the disk can't be read: {error}")
        return False


async def _write_boot_loader(job: Job) -> None:
    await trio.to_thread.run_sync(_write_boot_loaders, job)


def _write_boot_loaders(job: Job) -> None:
    with job.target.mount(job.places[EFI.label]) as root:
        _write_file(root / EFI_PATH, [job.source.boot.efi])
    reason = check_bios(job.target.sector_size)
    if reason:
        job.log(f"no boot loader for old firmware: {reason}")
        return
    with job.target.open() as file:
        write_bios(file, job.source.boot, job.places[BIOS.label], bootable=job.plan.request.legacy_bios)
        os.fsync(file.fileno())


async def _mark(job: Job) -> None:
    await trio.to_thread.run_sync(_write_meta, job)


def _write_meta(job: Job) -> None:
    with job.target.open() as file:
        file.seek(job.places[META.label].start)
        file.write(make_meta(job.meta))
        file.flush()
        os.fsync(file.fileno())


LAST_STEPS = (
    Step("writing the boot loader", _write_boot_loader),
    Step("marking the disk as installed", _mark),
)
STEPS = (
    Step("erasing what is on the disk", _erase),
    Step("writing the partition table", _partition),
    Step("making filesystems", _format),
    Step(f"copying the system to slot {SLOT}", _copy),
    Step("reading it back", _verify),
    *LAST_STEPS,
)
"""In this order, see above."""


def _write_file(path: Path, pieces: Iterable[bytes], *, mode: int = 0o644) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    replace_durably(path, pieces, mode=mode)
    flush_folder(path.parent.parent)
