"""Disk images that Secure Boot starts: signed systemd-boot, a UKI as slot A, and the owner's keys."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cryptography import x509

from talos.secureboot.esp import copy_tree, find_root, make_tree
from talos.secureboot.keys import OwnerKeys
from talos.secureboot.programs import find_programs
from talos.secureboot.signing import open_copy
from talos.system.block.gpt import list_rows
from talos.system.block.layout import (
    EFI,
    INSTALLED,
    META,
    UKI_EFI,
    UKI_INSTALLED,
    make_table,
    place_area,
    place_areas,
)
from talos.system.errors import UserError
from talos.system.process import make_pinned_argv, run_command
from talos.upgrade.state import SLOTS

_SECTOR, _BLOCK = 512, 1024
_SPARE = 4 << 20
"""Bytes of the partition that its own file system, signatures and keys take, generously."""
_OLD, _NEW = place_areas(INSTALLED), place_areas(UKI_INSTALLED)


def sign_disk(
    disk: Path, uki: Path, keys: OwnerKeys, out: Path, environment: Mapping[str, str] = os.environ
) -> x509.Certificate:
    """Write an image of a disk image's size, with its META, that has the signed files; the certificate.

    UserError, OSError; then there is no copy.
    """
    root = find_root("sign-disk", environment)
    _check_disk(disk)
    programs = find_programs(uki)
    _check_room(programs.image.stat().st_size + programs.loader.stat().st_size + _SPARE)
    with open_copy(out) as new, tempfile.TemporaryDirectory(prefix="esp-") as folder:
        tree = Path(folder)
        signer = make_tree(tree, uki, keys, SLOTS[0])
        _write_disk(root, disk, new)
        _write_partition(root, tree, new)
    return signer


def _check_disk(disk: Path) -> None:
    placed = place_area(EFI)
    with disk.open("rb") as file:
        row = next(list_rows(file.read(placed.start), _SECTOR), None)
    wanted = (placed.number, placed.start, EFI.size, EFI.label)
    if row and (row.number, row.start * _SECTOR, row.size * _SECTOR, row.label) == wanted:
        return
    raise UserError(
        "is no raw disk image whose first partition is EFI",
        where=str(disk),
        hint="disk.raw of `nix build .#disk-image` is one",
    )


def _check_room(needed: int) -> None:
    if needed > UKI_EFI.size // len(SLOTS):
        raise UserError(
            f"{needed >> 20} MiB are needed, the EFI partition has {UKI_EFI.size >> 20} for two slots",
            where="the signed files",
            hint="compose an image with fewer extensions",
        )


def _write_disk(root: str, disk: Path, new: Path) -> None:
    """Partitions without content, but for META."""
    (before, after) = (next(placed for placed in areas if placed.area is META) for areas in (_OLD, _NEW))
    with disk.open("rb") as source, new.open("wb") as file:
        source.seek(before.start)
        file.seek(after.start)
        file.write(source.read(META.size))
        file.truncate(disk.stat().st_size)
    table = make_table(_NEW, sector_size=_SECTOR)
    argv = (
        *make_pinned_argv(root, "usr/sbin/sfdisk"),
        "--quiet",
        "--no-reread",
        "--no-tell-kernel",
        str(new),
    )
    run_command(argv, input=table)


def _write_partition(root: str, tree: Path, disk: Path) -> None:
    start = next(placed.start for placed in _NEW if placed.area is UKI_EFI)
    argv = make_pinned_argv(root, "usr/sbin/mkfs.vfat")
    argv = (*argv, "-F", "32", "-n", UKI_EFI.label, "--offset", str(start // _SECTOR))
    run_command([*argv, str(disk), str(UKI_EFI.size // _BLOCK)])
    copy_tree(root, tree, f"{disk}@@{start}")
