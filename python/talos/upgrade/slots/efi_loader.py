"""The boot loader on EFI, replaced by another one: a power cut leaves the old one or the new one.

The new one is written beside the old one and read back; then one sector changes, which has the entries of
both files in their folder.
"""

from collections.abc import Callable
from pathlib import Path

from talos.system.block.layout import Placed
from talos.system.block.target import Target
from talos.system.errors import UserError
from talos.system.files import replace_durably
from talos.upgrade.slots.loader_trial import has_failed
from talos.upgrade.slots.vfat import take_name

NEW_NAMES = ("BOOTX64.NEW", "BOOTX64.NE2")
"""The new file until it gets its name. Short names have one entry each, of 32 bytes, in their folder."""


def replace_loader(
    target: Target, place: Placed, name: str, efi: bytes, report: Callable[[str], None]
) -> None:
    """Have the file of this name be this boot loader. Blocks; UserError, OSError: it is what it was."""
    label = place.area.label
    with target.mount(place, read_only=True) as root:
        path = root / name
        before = _read(path)
        if before == efi:
            return
        if has_failed(root, efi):
            raise UserError("this machine's firmware did not start it", where=label)
        # One that reads like what is started may share its sectors, after a power cut at the end of this
        # function: it is left alone, since a file that is removed frees its sectors.
        new = next(new for new in NEW_NAMES if before is None or _read(path.with_name(new)) != before)
    with target.mount(place) as root:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_durably(path.with_name(new), [efi])
    with target.mount(place, read_only=True) as root:
        if _read((root / name).with_name(new)) != efi:
            raise make_broken(f"{label}/{new}", target)
    with target.mount(place) as root:
        path = root / name
        take_name(path.with_name(new), path)
    report(f"{label}/{name} is replaced")


def make_broken(what: str, target: Target) -> UserError:
    """A disk that does not keep what it is given."""
    return UserError(
        f"{what} reads differently from what was written", where=target.path, hint="the disk is broken"
    )


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
