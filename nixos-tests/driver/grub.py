"""What GRUB makes of a disk: the disk is read with GRUB's own code, which replays no log of a filesystem."""

import hashlib
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from driver.programs import Programs

BOOT = "(loop0,gpt3)"
CONFIG, ENVIRONMENT = "grub/grub.cfg", "grub/grubenv"
HEADER = b"# GRUB Environment Block\n"
ENVIRONMENT_SIZE = 1024
START, SIZE = 102 << 20, 2000 << 20
"""Where an installed disk has BOOT, in bytes."""
SECTOR = 512
_DEFAULT = re.compile(r'^set default="([^"]*)"', re.MULTILINE)
_FALLBACK = re.compile(r"^set fallback=(\d)$", re.MULTILINE)
"""By its place in the menu: GRUB does not find a title with blanks in it."""
_ENTRY = re.compile(r'^menuentry "([^"]*)" \{\n  .*\n  .*\n  linux (\S+).*\n  initrd (\S+)\n\}', re.MULTILINE)
_BRANCH = re.compile(r'^(?:el)?if \[ "\$boot_count" = "(\d)" \]; then\n((?:  .*\n)*)', re.MULTILINE)
"""What is done at a count of starts that were not confirmed."""
_CHOICE = re.compile(r'^  set default="([^"]*)"\n  set fallback=(\d)$', re.MULTILINE)
_NEXT = re.compile(r'"\$next_entry" = "([AB])"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What is started: slots, the second one where the files of the first are missing."""

    first: str
    second: str = ""
    is_trial: bool = False
    """Whether the first one is started once, and the default the next time."""


class BootDisk:
    """A disk's image as GRUB reads it."""

    def __init__(self, programs: Programs, image: Path) -> None:
        """The image is plain, with partitions."""
        self._argv = [*programs.argv("grub-fstest"), str(image)]

    def read(self, path: str) -> bytes | None:
        """A file of BOOT; None when GRUB can't read it."""
        done = subprocess.run(
            [*self._argv, "cat", f"{BOOT}/{path}"], capture_output=True, check=False, timeout=120
        )
        return None if done.returncode or done.stderr else done.stdout

    def find_place(self, path: str) -> int:
        """Where the disk has the first byte of a file of BOOT."""
        argv = [*self._argv, "blocklist", f"{BOOT}/{path}"]
        done = subprocess.run(argv, capture_output=True, check=True, timeout=120)
        return START + int(done.stdout.split(b"+")[0]) * SECTOR

    def hash_system(self, slot: str) -> tuple[str, ...]:
        """The digests of a slot's kernel and initramfs; empty for one that can't be read."""
        found = [self.read(f"{slot}/{name}") for name in ("vmlinuz", "initramfs")]
        return tuple("" if data is None else hashlib.sha256(data).hexdigest() for data in found)

    def find_start(self) -> Start:
        """What GRUB starts. AssertionError when it can't start anything."""
        config = self.read(CONFIG)
        assert config is not None, f"GRUB can't read {CONFIG}"
        text = config.decode("utf-8", "replace")
        default, fallback = _DEFAULT.search(text), _FALLBACK.search(text)
        kernels = {title: kernel.split("/")[1] for title, kernel, _ in _ENTRY.findall(text)}
        assert default is not None, f"{CONFIG} has no default:\n{text}"
        assert default[1] in kernels, f"{CONFIG} has no default:\n{text}"
        first, second = kernels[default[1]], list(kernels.values())[int(fallback[1])] if fallback else ""
        other = _NEXT.search(text)
        if other is not None and self.read_variable("next_entry") == other[1]:
            return Start(first=other[1], second=first, is_trial=True)
        branch = dict(_BRANCH.findall(text)).get(self.read_variable("boot_count"), "")
        if choice := _CHOICE.search(branch):
            return Start(first=kernels[choice[1]], second=list(kernels.values())[int(choice[2])])
        return Start(first=first, second=second)

    def read_variable(self, name: str) -> str:
        """What GRUB's environment has by this name; empty without it, or when the file is not GRUB's."""
        data = self.read(ENVIRONMENT) or b""
        if len(data) != ENVIRONMENT_SIZE or not data.startswith(HEADER):
            return ""
        start = f"{name}=".encode()
        lines = data.split(b"\n")
        return next((line.removeprefix(start).decode() for line in lines if line.startswith(start)), "")
