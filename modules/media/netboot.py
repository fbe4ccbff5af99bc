"""Make the folder $out that a web server offers to machines that boot over the network."""

import os
import shutil
from pathlib import Path

from talos.upgrade.slots.grub.config import make_arguments

# iPXE reads names relative to the script's own address. The kernel comes twice: to run, and as a file of the
# initramfs that an installer copies to the disk. `initrd.magic` is how UEFI hands over both archives.
SCRIPT = """\
#!ipxe
:again
echo Loading Talos {version}
kernel vmlinuz initrd=initrd.magic {arguments} ${{arguments}} || goto failed
initrd initramfs || goto failed
initrd --name handed-over vmlinuz /vmlinuz mode=0444 || goto failed
boot || goto failed

:failed
echo Talos could not be loaded; again in 10 seconds
sleep 10
imgfree
goto again
"""


def main() -> None:
    """Copy the files, write the script."""
    out = Path(os.environ["out"])
    out.mkdir()
    shutil.copyfile(f"{os.environ['kernel']}/vmlinuz", out / "vmlinuz")
    shutil.copyfile(os.environ["initramfs"], out / "initramfs")
    arguments = " ".join(make_arguments(Path(os.environ["boot"], "cmdline").read_text()))
    (out / "boot.ipxe").write_text(SCRIPT.format(version=os.environ["version"], arguments=arguments))


main()
