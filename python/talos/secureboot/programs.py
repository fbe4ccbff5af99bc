"""What `nix build .#uki` has made: systemd-boot and one UKI, unsigned."""

from dataclasses import dataclass
from pathlib import Path

from talos.system.errors import UserError
from talos.upgrade.slots.systemd_boot.entry import FOLDER, LOADER_PATH


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The two files."""

    loader: Path
    image: Path


def find_programs(uki: Path) -> Programs:
    """The files in this folder; UserError when it is none of that kind."""
    images = sorted((uki / FOLDER).glob("*.efi"))
    if len(images) != 1 or not (uki / LOADER_PATH).is_file():
        raise UserError(
            f"has not {LOADER_PATH} and one file in {FOLDER}",
            where=str(uki),
            hint="`nix build .#uki` makes both",
        )
    return Programs(loader=uki / LOADER_PATH, image=images[0])
