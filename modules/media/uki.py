"""Make $out, the files of an ESP: a Unified Kernel Image and the systemd-boot that starts it, both unsigned.

The image is of $kernel, $initramfs, the arguments of the boot loader in $boot, and an os-release which also
has the digest of the bill of materials in $sbom. It has a second profile, which an upgrade starts once: its
arguments are those of a trial, and are signed with the rest.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from talos.upgrade.slots.grub.config import make_arguments
from talos.upgrade.slots.systemd_boot.entry import TRIAL_PROFILE
from talos.upgrade.state import TRIAL_ARGUMENT

SYSTEMD = Path("/usr/lib/systemd/boot/efi")
SBOM_DIGEST = "TALOS_SBOM_SHA256"


def main() -> None:
    """Lay out what firmware starts, and have ukify make what systemd-boot finds by its folder."""
    out, version = Path(os.environ["out"]), os.environ["version"]
    loader, image = out / "EFI/BOOT/BOOTX64.EFI", out / f"EFI/Linux/Talos-{version}.efi"
    for path in (loader, image):
        path.parent.mkdir(parents=True)
    shutil.copyfile(SYSTEMD / "systemd-bootx64.efi", loader)

    digest = hashlib.sha256(Path(os.environ["sbom"]).read_bytes()).hexdigest()
    os_release = Path("os-release")
    os_release.write_text(f"{Path(os.environ['os_release']).read_text()}{SBOM_DIGEST}={digest}\n")
    arguments = " ".join(make_arguments(Path(os.environ["boot"], "cmdline").read_text()))
    trial = Path("trial.efi")
    make(trial, f"--profile=ID={TRIAL_PROFILE}", f"--cmdline={arguments} {TRIAL_ARGUMENT}")
    parts = [f"--stub={SYSTEMD / 'linuxx64.efi.stub'}", f"--os-release=@{os_release}"]
    parts += [f"--linux={os.environ['kernel']}/vmlinuz", f"--initrd={os.environ['initramfs']}"]
    make(image, *parts, f"--cmdline={arguments}", "--profile=ID=main", f"--join-profile={trial}")
    image.chmod(0o644)


def make(out: Path, *options: str) -> None:
    """Run ukify."""
    argv = ["python3.13", "/usr/bin/ukify", "build", "--efi-arch=x64", f"--output={out}"]
    subprocess.run([*argv, *options], check=True)


main()
