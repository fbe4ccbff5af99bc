"""Disk images that Secure Boot starts: signed systemd-boot and UKI in place of GRUB, and the owner's keys."""

import os
import struct
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography import x509

from talos.secureboot.signing import sign_image
from talos.system.block.layout import EFI, place_area
from talos.system.errors import UserError
from talos.system.files import read_pieces
from talos.system.process import make_pinned_argv, run_command

ROOT_VARIABLE = "TALOS_MEDIA_ROOT"
KEY, CERTIFICATE = "uki-signing-key.pem", "uki-signing-cert.pem"
VARIABLES = ("PK.auth", "KEK.auth", "db.auth")
"""What `talosctl gen secureboot` writes."""
LOADER, IMAGES = "EFI/BOOT/BOOTX64.EFI", "EFI/Linux"
"""What `.#uki` has."""
_LOADER_CONFIG = "timeout 3\n"
_ENROLL = "secure-boot-enroll if-safe\n"
_SECTOR, _BLOCK = 512, 1024
_CLUSTER = 2
"""Sectors. More would leave fewer clusters than a FAT32 has, which firmware then does not read."""
_SPARE = 4 << 20
"""Bytes of the partition that its own file system takes, generously."""
_GPT = b"EFI PART"
_ENTRY = struct.Struct("<16s16sQQQ72s")
"""The first entry of a partition table (UEFI specification 2.10, section 5.3.3): type, id, first sector, last
sector, attributes, name."""


def sign_disk(
    disk: Path, uki: Path, keys: Path, out: Path, environment: Mapping[str, str] = os.environ
) -> x509.Certificate:
    """Write a copy of a disk image whose EFI partition has the signed files; the certificate.

    ``keys`` is the folder of the owner's. UserError, OSError; then there is no copy.
    """
    root = environment.get(ROOT_VARIABLE, "")
    if not root:
        raise UserError("is not set", where=ROOT_VARIABLE, hint="start it as `nix run .#sign-disk`")
    _check_disk(disk)
    programs, variables = _find_programs(uki), _find_variables(keys)
    new = out.with_name(f".{out.name}.new")
    try:
        with tempfile.TemporaryDirectory(prefix="esp-") as folder:
            tree = Path(folder)
            for name in programs:
                (tree / name).parent.mkdir(parents=True)
            key, certificate = keys / KEY, keys / CERTIFICATE
            signers = [
                sign_image(file, tree / name, key=key, certificate=certificate, environment=environment)
                for name, file in programs.items()
            ]
            _add_settings(tree, variables)
            _copy_sparse(disk, new)
            _write_partition(root, tree, new)
        new.replace(out)
    finally:
        new.unlink(missing_ok=True)
    return signers[0]


def _check_disk(disk: Path) -> None:
    placed = place_area(EFI)
    with disk.open("rb") as file:
        table = file.read(4 * _SECTOR)
    head, entry = table[_SECTOR : 2 * _SECTOR], table[2 * _SECTOR :]
    if head.startswith(_GPT) and len(entry) >= _ENTRY.size:
        _, _, first, last, _, name = _ENTRY.unpack_from(entry)
        found = (first * _SECTOR, (last + 1 - first) * _SECTOR, name.decode("utf-16-le").rstrip("\0"))
        if found == (placed.start, EFI.size, EFI.label):
            return
    raise UserError(
        "is no raw disk image whose first partition is EFI",
        where=str(disk),
        hint="disk.raw of `nix build .#disk-image` is one",
    )


def _find_programs(uki: Path) -> Mapping[str, Path]:
    images = sorted((uki / IMAGES).glob("*.efi"))
    if len(images) != 1 or not (uki / LOADER).is_file():
        raise UserError(
            f"has not {LOADER} and one file in {IMAGES}", where=str(uki), hint="`nix build .#uki` makes both"
        )
    (image,) = images
    return {LOADER: uki / LOADER, f"{IMAGES}/{image.name}": image}


def _find_variables(keys: Path) -> Sequence[Path]:
    """All, or none: then the firmware has its keys already."""
    there = [keys / name for name in VARIABLES if (keys / name).is_file()]
    if there and len(there) < len(VARIABLES):
        raise UserError(
            f"has only {', '.join(path.name for path in there)} of {', '.join(VARIABLES)}",
            where=str(keys),
            hint="`talosctl gen secureboot database` writes all of them",
        )
    return there


def _add_settings(tree: Path, variables: Sequence[Path]) -> None:
    keys = tree / "loader/keys/auto"
    keys.mkdir(parents=True)
    for path in variables:
        (keys / path.name).write_bytes(path.read_bytes())
    (tree / "loader/loader.conf").write_text(_LOADER_CONFIG + (_ENROLL if variables else ""))
    needed = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) + _SPARE
    if needed > EFI.size:
        raise UserError(
            f"{needed >> 20} MiB are needed, the EFI partition has {EFI.size >> 20}",
            where="the signed files",
            hint="compose an image with fewer extensions",
        )


def _copy_sparse(disk: Path, copy: Path) -> None:
    """Pieces of zeros become holes."""
    with copy.open("wb") as file:
        for piece in read_pieces(disk):
            if piece.count(0) == len(piece):
                file.seek(len(piece), os.SEEK_CUR)
            else:
                file.write(piece)
        file.truncate()


def _write_partition(root: str, tree: Path, disk: Path) -> None:
    start = place_area(EFI).start
    argv = make_pinned_argv(root, "usr/sbin/mkfs.vfat")
    argv = (*argv, "-F", "32", "-s", str(_CLUSTER), "-n", EFI.label, "--offset", str(start // _SECTOR))
    run_command([*argv, str(disk), str(EFI.size // _BLOCK)])
    argv = (*make_pinned_argv(root, "usr/bin/mcopy"), "-s", "-i", f"{disk}@@{start}")
    # Not the user's own settings of mtools, which name other drives.
    run_command([*argv, *map(str, sorted(tree.iterdir())), "::"], env={"MTOOLSRC": "/dev/null"})
