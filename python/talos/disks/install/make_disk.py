"""A disk image with an installed system, made without root: ``python3 -m talos.disks.install.make_disk``.

The same inputs give the same bytes. What a machine makes of it on its first boot: the partition table is
moved to the disk's end, STATE and EPHEMERAL come to be behind META.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import NAMESPACE_DNS, UUID, uuid5

from talos.disks.install.repeatable import EPOCH, copy_sparse, make_xfs_repeatable
from talos.system.block.layout import BIOS, BOOT, DISK, EFI, IMAGE_SIZE, META, MIB, make_table, place_areas
from talos.system.block.meta import make_meta
from talos.system.errors import UserError
from talos.system.process import run_command
from talos.system.sizes import parse_size
from talos.upgrade.slots.grub.config import INITRAMFS, KERNEL, PATH, Entry, make_arguments, make_config
from talos.upgrade.slots.grub.loader import DIRECTORY, EFI_PATH, SECTOR, BootImages, load_images, write_bios
from talos.upgrade.state import SLOTS

BOOTLOADER_TAG = 0x11
"""META's tag that a disk image carries until its first boot."""
BOOTLOADER = b"grub"
_NAMESPACE = uuid5(NAMESPACE_DNS, "disk-image.talos.dev")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskImage:
    """The content of an image. ``size`` in bytes."""

    size: int
    version: str
    kernel: Path
    initramfs: Path
    boot: BootImages
    arguments: tuple[str, ...] = ()
    legacy_bios: bool = False


def main(argv: Sequence[str] | None = None) -> int:
    """Entry of ``python3 -m talos.disks.install.make_disk``."""
    options = _parse(argv)
    image = DiskImage(
        size=parse_image_size(options.size),
        version=options.version,
        kernel=options.kernel,
        initramfs=options.initramfs,
        boot=load_images(options.boot),
        arguments=tuple(options.argument),
        legacy_bios=options.legacy_bios,
    )
    try:
        make_disk(image, options.out)
    except UserError as error:
        sys.stderr.write(f"make_disk: {error}\n")
        return 1
    return 0


def make_disk(image: DiskImage, out: Path) -> None:
    """Write the image as a sparse file."""
    if image.size < IMAGE_SIZE or image.size % MIB:
        raise UserError(
            f"{image.size} bytes", where="--size", hint=f"whole MiB, at least {IMAGE_SIZE // MIB}MiB"
        )
    places = {placed.area.label: placed for placed in place_areas()}
    ids = {name: make_id(name) for name in (DISK, *places)}
    table = make_table([*places.values()], sector_size=SECTOR, ids=ids)
    out.unlink(missing_ok=True)
    _make_sparse(out, image.size)
    run_command(["sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", str(out)], input=table)
    with tempfile.TemporaryDirectory(prefix="disk-", dir=out.parent) as scratch, out.open("r+b") as disk:
        for label, make in ((EFI.label, _make_efi), (BOOT.label, _make_boot)):
            copy_sparse(make(image, Path(scratch)), disk, places[label].start)
        disk.seek(places[META.label].start)
        disk.write(make_meta({BOOTLOADER_TAG: BOOTLOADER}))
        write_bios(disk, image.boot, places[BIOS.label], bootable=image.legacy_bios)


def make_id(name: str) -> UUID:
    """The id of a part of every disk image."""
    return uuid5(_NAMESPACE, name)


def parse_image_size(text: str) -> int:
    """Bytes of ``2200MiB`` and the like."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise UserError(str(error), where="--size", hint="such as 2200MiB or 3GiB") from None


def _make_efi(image: DiskImage, scratch: Path) -> Path:
    volume = scratch / "efi.img"
    _make_sparse(volume, EFI.size)
    serial = make_id("EFI file system").hex[:8]
    run_command(["mkfs.vfat", "--invariant", "-F", "32", "-n", EFI.label, "-i", serial, str(volume)])
    loader = scratch / "loader.efi"
    loader.write_bytes(image.boot.efi)
    os.utime(loader, (EPOCH, EPOCH))
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), "TZ": "UTC", "MTOOLS_SKIP_CHECK": "1"}
    path = Path(EFI_PATH)
    folders = [f"::{folder}" for folder in reversed(path.parents) if folder != Path()]
    run_command(["mmd", "-i", str(volume), *folders], env=environment)
    run_command(["mcopy", "-m", "-i", str(volume), str(loader), f"::{path}"], env=environment)
    return volume


def _make_boot(image: DiskImage, scratch: Path) -> Path:
    volume = scratch / "boot.img"
    _make_sparse(volume, BOOT.size)
    slot = SLOTS[0]
    arguments = make_arguments(image.boot.cmdline, image.arguments)
    config = scratch / "grub.cfg"
    config.write_text(
        make_config([Entry(slot=slot, version=image.version, arguments=arguments)], slot), encoding="utf-8"
    )
    # A path ends at a blank there, so it gets names without a folder.
    for name, file in ((KERNEL, image.kernel), (INITRAMFS, image.initramfs)):
        (scratch / name).symlink_to(file.absolute())
    prototype = scratch / "prototype"
    prototype.write_text(
        f"""/
0 0
d--755 0 0
{slot} d--755 0 0
{KERNEL} ---644 0 0 {KERNEL}
{INITRAMFS} ---644 0 0 {INITRAMFS}
$
{Path(PATH).parent} d--755 0 0
{Path(PATH).name} ---600 0 0 {config.name}
$
$
""",
        encoding="utf-8",
    )
    uuid = make_id("BOOT file system")
    run_command(
        ["mkfs.xfs", "-q", "-L", BOOT.label, "-m", f"uuid={uuid}", "-p", prototype.name, volume.name],
        cwd=scratch,
    )
    make_xfs_repeatable(volume, uuid)
    return volume


def _make_sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make_disk", description="Make a disk image with an installed system."
    )
    add = parser.add_argument
    add("--size", default=f"{IMAGE_SIZE // MIB}MiB", help="of the image (default: %(default)s)")
    add("--version", required=True, help="of the system, as the boot menu shows it")
    add("--kernel", type=Path, required=True)
    add("--initramfs", type=Path, required=True)
    add("--boot", type=Path, default=DIRECTORY, help="folder of the boot loader (default: %(default)s)")
    add("--argument", action="append", default=[], help="of the kernel, additionally")
    add("--legacy-bios", action="store_true", help="mark the protective MBR as bootable")
    add("--out", type=Path, required=True, help="the raw image to write")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
