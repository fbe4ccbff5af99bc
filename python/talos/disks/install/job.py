"""An installation: what is installed, to which disk, and how what is installed is started from there."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from talos.disks.install.plan import InstallPlan
from talos.system.block.layout import EPHEMERAL, STATE, Area, Placed, place_areas
from talos.system.block.target import Target
from talos.system.files import flush_folder, replace_durably
from talos.upgrade.state import SLOTS

SLOT = SLOTS[0]


class System(Protocol):
    """A system to install, and the boot loader that starts it. All methods block; UserError, OSError."""

    @property
    def areas(self) -> tuple[Area, ...]:
        """The partitions that it is installed to."""
        ...

    @property
    def missing(self) -> tuple[str, str]:
        """What there is no copy of, so that it can't be written, and the remedy; empty texts without."""
        ...

    def check(self) -> None:
        """UserError when it is damaged, or would not be started."""
        ...

    def copy(self, job: "Job") -> None:
        """Write it to its slot, and what names it last."""
        ...

    def is_written(self, job: "Job") -> bool:
        """Whether the slot holds this very system."""
        ...

    def write_boot_loader(self, job: "Job") -> None:
        """Write what firmware starts."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """An installation: system, target and log. ``meta`` are the first values of META."""

    plan: InstallPlan
    system: System
    target: Target
    log: Callable[[str], None]
    meta: Mapping[int, bytes] = field(default_factory=dict[int, bytes])

    @property
    def places(self) -> Mapping[str, Placed]:
        """The partitions by label, those that are made later among them."""
        return {placed.area.label: placed for placed in place_areas((*self.system.areas, STATE, EPHEMERAL))}


def write_file(path: Path, pieces: Iterable[bytes], *, mode: int = 0o644) -> None:
    """Write a file, and the folders that lead to it."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    replace_durably(path, pieces, mode=mode)
    flush_folder(path.parent.parent)
