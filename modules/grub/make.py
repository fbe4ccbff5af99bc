"""Assemble GRUB's images of $purpose into $out: for old firmware, and for UEFI."""

import os
import shutil
import subprocess
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


def make_image(kind: str, name: str, modules: tuple[str, ...]) -> None:
    """Assemble one image with `grub-mkimage`; `kind` is a name of its own."""
    argv = ["grub-mkimage", "--format", kind, "--output", str(Path(os.environ["out"], name))]
    argv += ["--config", os.environ["config"], "--prefix", PREFIX[os.environ["purpose"]]]
    subprocess.run([*argv, *modules], check=True)


def main() -> None:
    """Make what the purpose needs."""
    out = Path(os.environ["out"])
    out.mkdir()
    make_image("x86_64-efi", "BOOTX64.EFI", MODULES)
    if os.environ["purpose"] == "iso":
        make_image("i386-pc-eltorito", "eltorito.img", ("biosdisk", *MODULES))
        shutil.copyfile(GRUB / "i386-pc/boot_hybrid.img", out / "boot_hybrid.img")
        return
    make_image("i386-pc", "core.img", ("biosdisk", *MODULES))
    shutil.copyfile(GRUB / "i386-pc/boot.img", out / "boot.img")
    arguments = Path(os.environ["cmdline"]).read_text().split()
    (out / "cmdline").write_text(" ".join(arguments) + "\n")


main()
