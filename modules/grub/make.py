"""Assemble GRUB's images of $purpose into $out: for old firmware, and for UEFI."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

GRUB = Path("/usr/lib/grub")

MODULES = (
    # Where things are.
    *("part_gpt", "part_msdos", "fat", "iso9660", "xfs", "search", "search_label"),
    # The commands of a grub.cfg; loadenv keeps which slot is booted once.
    *("normal", "configfile", "test", "true", "echo", "sleep", "loadenv", "reboot", "halt"),
    # Where it is shown.
    *("terminal", "serial", "all_video"),
    "linux",
)

# The folder with grub.cfg, where it is looked for first: on the disk that the firmware started from.
# A disk begins with EFI, BIOS and BOOT.
PREFIX = {"disk": "(,gpt3)/grub", "iso": "/boot/grub"}


def make_image(kind: str, name: str, modules: tuple[str, ...], more: list[str]) -> None:
    """Assemble one image with `grub-mkimage`; `kind` is a name of its own."""
    argv = ["grub-mkimage", "--format", kind, "--output", str(Path(os.environ["out"], name)), *more]
    # After --memdisk, which brings a prefix of its own.
    argv += ["--config", os.environ["config"], "--prefix", PREFIX[os.environ["purpose"]]]
    subprocess.run([*argv, *modules], check=True)


def make_memdisk(cmdline: str) -> Path:
    """The archive with the config that GRUB runs first on a disk: its own parser has no conditions."""
    from talos.upgrade.slots.grub.config import make_start

    folder, archive = Path("memdisk"), Path("memdisk.tar")
    folder.mkdir()
    (folder / "grub.cfg").write_text(make_start(cmdline))
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
        entry = tarfile.TarInfo("grub.cfg")
        entry.size, entry.mode = (folder / "grub.cfg").stat().st_size, 0o644
        with (folder / "grub.cfg").open("rb") as file:
            tar.addfile(entry, file)
    return archive


def main() -> None:
    """Make what the purpose needs."""
    out = Path(os.environ["out"])
    out.mkdir()
    if os.environ["purpose"] == "iso":
        make_image("x86_64-efi", "BOOTX64.EFI", MODULES, [])
        make_image("i386-pc-eltorito", "eltorito.img", ("biosdisk", *MODULES), [])
        shutil.copyfile(GRUB / "i386-pc/boot_hybrid.img", out / "boot_hybrid.img")
        return
    arguments = " ".join(Path(os.environ["cmdline"]).read_text().split())
    memdisk = ["--memdisk", str(make_memdisk(arguments))]
    modules = (*MODULES, "memdisk", "tar")
    make_image("x86_64-efi", "BOOTX64.EFI", modules, memdisk)
    make_image("i386-pc", "core.img", ("biosdisk", *modules), memdisk)
    shutil.copyfile(GRUB / "i386-pc/boot.img", out / "boot.img")
    (out / "cmdline").write_text(arguments + "\n")


main()
