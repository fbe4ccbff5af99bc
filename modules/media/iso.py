"""Make the ISO $out: old firmware and UEFI start it as a disc, and as a disk when it was copied to one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from talos.upgrade.slots.grub.config import TIMEOUT, make_arguments

LABEL = "TALOS"
EPOCH = 1
DISK_ID = (
    "7e1c4a52-8f0b-4d43-9c5e-2d6a54414c4f"  # of the partition table, for firmware that reads it as a disk
)
EFI_SERIAL = "54414c4f"
EFI_SIZE = 2 << 20
WIPE_ARGUMENT = "talos.experimental.wipe=system"

CONFIG = """\
set default=0
set timeout={timeout}

insmod all_video
serial --unit=0 --speed=115200
terminal_input console serial
terminal_output console serial

menuentry "Talos {version}" {{
  set gfxpayload=text
  echo "Loading Talos {version}; there is no further line until the kernel starts"
  linux /boot/vmlinuz {arguments}
  initrd /boot/initramfs newc:vmlinuz:/boot/vmlinuz
}}

menuentry "Wipe the installed system, its disk's partitions and data" {{
  set gfxpayload=text
  linux /boot/vmlinuz {arguments} {wipe}
  initrd /boot/initramfs newc:vmlinuz:/boot/vmlinuz
}}
"""


def make_tree(tree: Path) -> None:
    """Lay out the files of the ISO."""
    boot = Path(os.environ["boot"])
    grub = tree / "boot/grub"
    grub.mkdir(parents=True)
    shutil.copyfile(f"{os.environ['kernel']}/vmlinuz", tree / "boot/vmlinuz")
    shutil.copyfile(os.environ["initramfs"], tree / "boot/initramfs")
    shutil.copyfile(Path(os.environ["grub"], "eltorito.img"), grub / "eltorito.img")
    arguments = " ".join(make_arguments((boot / "cmdline").read_text()))
    (grub / "grub.cfg").write_text(
        CONFIG.format(timeout=TIMEOUT, version=os.environ["version"], arguments=arguments, wipe=WIPE_ARGUMENT)
    )


def add_images(tree: Path, cache: Path) -> None:
    """Add a cache of images, from which machines that are started from the ISO get theirs."""
    if not (cache / "manifests").is_dir():
        sys.exit(
            f"lib.image: imageCache: {cache} has no folder manifests; it is one that "
            "`talosctl image cache-create --layout=flat` has made"
        )
    shutil.copytree(cache, tree / "imagecache", copy_function=shutil.copyfile)


def make_efi(volume: Path, loader: Path) -> None:
    """Make the file system that UEFI reads its loader from."""
    with volume.open("wb") as file:
        file.truncate(EFI_SIZE)
    subprocess.run(["mkfs.vfat", "--invariant", "-n", "EFI", "-i", EFI_SERIAL, str(volume)], check=True)
    copy = Path("loader.efi")
    shutil.copyfile(loader, copy)
    os.utime(copy, (EPOCH, EPOCH))
    image = ["-i", str(volume)]
    subprocess.run(["mmd", *image, "::EFI", "::EFI/BOOT"], check=True)
    subprocess.run(["mcopy", "-m", *image, str(copy), "::EFI/BOOT/BOOTX64.EFI"], check=True)


def set_times(tree: Path) -> None:
    """Give every file one time, which the ISO records."""
    for path in (tree, *tree.rglob("*")):
        os.utime(path, (EPOCH, EPOCH))


def main() -> None:
    """Make the tree, the EFI volume, and the ISO of both; the way grub-mkrescue does it, without its HFS+."""
    tree = Path("tree")
    os.environ["TZ"] = "UTC"
    make_tree(tree)
    if cache := os.environ.get("imageCache"):
        add_images(tree, Path(cache))
    make_efi(tree / "boot/efi.img", Path(os.environ["grub"], "BOOTX64.EFI"))
    set_times(tree)
    argv = ["xorriso", "-as", "mkisofs", "-quiet", "-o", os.environ["out"], "-V", LABEL, "-r"]
    argv += ["--gpt_disk_guid", DISK_ID, "--modification-date=1970010100000100"]
    argv += ["-b", "boot/grub/eltorito.img", "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table"]
    argv += ["--grub2-boot-info", "--grub2-mbr", f"{os.environ['grub']}/boot_hybrid.img"]
    argv += ["--efi-boot", "boot/efi.img", "-efi-boot-part", "--efi-boot-image"]
    argv += ["--protective-msdos-label", str(tree)]
    subprocess.run(argv, check=True)


main()
