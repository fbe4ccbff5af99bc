"""ISOs that Secure Boot starts: signed systemd-boot and UKI in place of GRUB, and the owner's keys."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cryptography import x509

from talos.secureboot.esp import copy_tree, find_root, make_tree, measure_tree
from talos.secureboot.keys import OwnerKeys
from talos.secureboot.signing import open_copy
from talos.system.errors import UserError
from talos.system.process import make_pinned_argv, run_command
from talos.upgrade.slots.systemd_boot.entry import ISO_VOLUME

LABEL = "TALOS"
"""By which a running system finds its ISO: the volume id's beginning."""
_DESCRIPTOR = 16 * 2048
"""Where a volume descriptor begins (ECMA-119, section 8.4), in bytes."""
_MARK, _NAME = slice(1, 6), slice(40, 72)
"""Within it: what it begins with, and the volume's id."""
_SECTOR, _MAX_CLUSTER = 512, 8
"""Bytes of a sector, and sectors of a cluster at most."""
_MIN_CLUSTERS = 65_525 + 64
"""Below that, a file system is read as FAT16 (Microsoft's FAT specification, section 3.5); and some more."""
_SPARE, _STEP = 8 << 20, 1 << 20
"""Bytes that the file system itself takes, generously, and that its size is a multiple of."""


def sign_iso(
    iso: Path, uki: Path, keys: OwnerKeys, out: Path, environment: Mapping[str, str] = os.environ
) -> x509.Certificate:
    """Write an ISO with the signed files, which UEFI alone starts, and the cache of images; the certificate.

    UserError, OSError; then there is no copy.
    """
    root = find_root("sign-iso", environment)
    _check_iso(iso)
    with open_copy(out) as new, tempfile.TemporaryDirectory(prefix="iso-") as folder:
        tree, volume = Path(folder, "tree"), Path(folder, "efi.img")
        signer = make_tree(tree, uki, keys)
        _make_volume(root, tree, volume)
        new.unlink(missing_ok=True)  # xorriso would add to it
        _make_iso(root, iso, volume, new)
    return signer


def _check_iso(iso: Path) -> None:
    with iso.open("rb") as file:
        file.seek(_DESCRIPTOR)
        descriptor = file.read(_NAME.stop)
    if descriptor[_MARK] != b"CD001" or not descriptor[_NAME].startswith(LABEL.encode()):
        raise UserError(
            f"is no ISO with the label {LABEL}", where=str(iso), hint="`nix build .#iso` makes one"
        )


def _make_volume(root: str, tree: Path, volume: Path) -> None:
    """Make the file system that UEFI reads: FAT32, with clusters as large as that allows.

    Firmware follows the chain of a file's clusters one by one.
    """
    size = -(-(measure_tree(tree) + _SPARE) // _STEP) * _STEP
    cluster = _MAX_CLUSTER
    while cluster > 1 and size // (cluster * _SECTOR) < _MIN_CLUSTERS:
        cluster //= 2
    with volume.open("wb") as file:
        file.truncate(max(size, _MIN_CLUSTERS * _SECTOR + _SPARE))
    argv = make_pinned_argv(root, "usr/sbin/mkfs.vfat")
    run_command([*argv, "-F", "32", "-n", "EFI", "-s", str(cluster), str(volume)])
    copy_tree(root, tree, str(volume))


def _make_iso(root: str, iso: Path, volume: Path, new: Path) -> None:
    """Copy the ISO without what GRUB starts; firmware finds the volume on a disc, and on a disk as well."""
    argv = [*make_pinned_argv(root, "usr/bin/xorriso"), "-no_rc", "-report_about", "FAILURE"]
    argv += ["-indev", str(iso), "-outdev", str(new)]
    argv += ["-boot_image", "any", "discard", "-boot_image", "any", "system_area=/dev/zero"]
    argv += ["-rm_r", f"/{Path(ISO_VOLUME).parts[0]}", "--", "-map", str(volume), f"/{ISO_VOLUME}"]
    argv += ["-boot_image", "any", f"efi_path=/{ISO_VOLUME}"]
    argv += ["-boot_image", "any", "efi_boot_part=--efi-boot-image"]
    # Within the image: the copy of the partition table at its end has room then, whatever the last file is.
    run_command([*argv, "-padding", "included"])
