"""The port to the two slots of a node, whatever starts one of them: eight verbs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from talos.system.block.layout import Area
from talos.system.errors import UserError
from talos.upgrade.release.layer import Release
from talos.upgrade.release.manifest import REQUIRED, UKI
from talos.upgrade.slots.open_keys import Prepared

if TYPE_CHECKING:
    from talos.system.block.target import BlockTarget

type Report = Callable[[str], None]


def drop(line: str) -> None:
    """A report without a reader."""
    del line


def check_parts(release: Release) -> None:
    """UserError unless a release has kernel and initramfs, for a boot loader that takes them apart."""
    files = release.layer.files
    missing = [name for name in REQUIRED if name not in files]
    if UKI in files and missing:
        raise UserError(
            f"it lacks {', '.join(missing)}, which this machine is started from",
            where=f"image {release.name}",
            hint="a signed UKI is for machines that were installed from one: name the release without it",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotChoice:
    """The versions of the slots that can be booted, and the default."""

    versions: Mapping[str, str]
    default: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState(SlotChoice):
    """The slots as they are.

    ``failed_starts`` is how often the default was started without a confirmation before the other slot was,
    0 when that was not; ``failure`` is why the slot that was to be booted once was not started, empty where
    that is unknown.
    """

    failed_starts: int = 0
    failure: str = ""


class Slots(Protocol):
    """The two slots. UserError for what a user can correct; OSError when the disk fails."""

    async def read(self, repair: SlotChoice | None = None) -> SlotState:
        """What can be booted. One that can't be read is written anew by ``repair``; UserError without."""
        ...

    async def check(self, release: Release) -> Sequence[Prepared]:
        """UserError when the boot loader can't start this release. Nothing is written.

        The keys by which volumes are opened in the starts that it leads to, for :meth:`write`.
        """
        ...

    async def check_slot(self, slot: str) -> None:
        """UserError when what is in a slot would not open this machine's volumes."""

    async def write(
        self, release: Release, slot: str, report: Report, keys: Sequence[Prepared] = ()
    ) -> bytes:
        """Write a release to a slot, and report the steps. After an error the slot has what it had before.

        First of all the ``keys`` that were prepared for it: they are added to those that are there.

        The release's boot loader, for :meth:`boot_once`; empty where there is none to try.
        """
        ...

    async def boot_once(self, slot: str, boot_loader: bytes = b"", report: Report = drop) -> None:
        """Have a slot booted the next time and only then; without one, the default.

        By this boot loader, where it is another than the present one and can be tried.
        """
        ...

    async def make_default(self, slot: str, *, with_loader: bool = False) -> None:
        """Have a slot booted from now on, and its starts counted anew; what a trial has left is removed.

        ``with_loader``: by the running system's boot loader, unless that can't replace the present one.
        """
        ...

    async def revoke(self, slot: str) -> None:
        """Have the firmware start no more what the release in a slot revokes, for ever; again, nothing.

        Once META has the slot's good verdict: before that, the slot of before may be what is booted next.
        What fails is logged, and done after the next start.
        """

    async def settle_keys(self) -> None:
        """Have volumes in use opened by the present PCRs; remove keys for starts that do not come any more.

        UserError, OSError: some keys are left.
        """


@runtime_checkable
class DiskSlots(Protocol):
    """Slots of a machine: a system can be installed to its disks."""

    @property
    def areas(self) -> tuple[Area, ...]:
        """The partitions of such a disk, as they are written."""
        ...

    def open_target(self, path: str, sector_size: int) -> "BlockTarget":
        """A disk that a system is written to."""
        ...
