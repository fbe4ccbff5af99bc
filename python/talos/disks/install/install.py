"""Writing a system to a disk.

Safe against power cuts: META, which marks an installation, is erased first and written last. Until it is
written, the disk counts as not installed and its partitions as those of an interrupted installation,
which can be repeated. The boot loader is written after everything that it starts has been verified.
"""

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import trio

from talos.disks.install.job import SLOT, Job
from talos.system.block.layout import MARKS, META, make_table, place_areas
from talos.system.block.meta import make_meta
from talos.system.block.wipe import wipe_edges
from talos.system.errors import UserError


@dataclass(frozen=True, slots=True)
class Step:
    """A part of an installation; after each there may be a power cut."""

    text: str
    run: Callable[[Job], Awaitable[None]]


async def run_install(job: Job, steps: "Sequence[Step] | None" = None) -> None:
    """Install. UserError for what a user can correct; OSError when the disk fails."""
    await trio.to_thread.run_sync(job.system.check)
    written = job.plan.disk.is_unfinished and await trio.to_thread.run_sync(_is_written, job)
    if written:
        job.log("everything but the mark of an installation is on the disk already")
    elif job.system.missing[0]:
        what, hint = job.system.missing
        raise UserError(what, where="install", hint=hint)
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
    await job.target.write_table(
        make_table(place_areas(job.system.areas), sector_size=job.target.sector_size)
    )


async def _format(job: Job) -> None:
    for area in job.system.areas:
        if area.filesystem:
            await job.target.make_filesystem(job.places[area.label])


async def _copy(job: Job) -> None:
    await trio.to_thread.run_sync(job.system.copy, job)


async def _verify(job: Job) -> None:
    if not await trio.to_thread.run_sync(_is_written, job):
        raise UserError(
            "what was written reads differently",
            where=job.target.path,
            hint="the disk is broken, use another",
        )


def _is_written(job: Job) -> bool:
    """Whether the slot holds this very system."""
    try:
        return job.system.is_written(job)
    except OSError as error:
        job.log(f"what is on the disk can't be read: {error}")
        return False


async def _write_boot_loader(job: Job) -> None:
    await trio.to_thread.run_sync(job.system.write_boot_loader, job)


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
