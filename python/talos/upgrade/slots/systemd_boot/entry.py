"""The names of the two slots' UKIs on EFI, and of systemd-boot's entries for them.

``talos-b.efi``        the file of a slot, and the entry that starts it
``talos-b.efi@trial``  the entry that starts it with the argument of a trial, by a second profile of the UKI

Names are in lower case, as systemd-boot compares them, and so short that a folder's first sector has all of
them. They have no counters of starts: with one in its name, version 257 gives all profiles of a UKI the same
entry.
"""

import re
from pathlib import Path

from talos.system.pe import Program
from talos.system.version import parse_os_release

FOLDER = "EFI/Linux"
"""Within EFI: where systemd-boot looks for UKIs."""
LOADER_PATH = "EFI/BOOT/BOOTX64.EFI"
"""Within EFI: systemd-boot, where firmware looks without a boot entry."""
ISO_VOLUME = "boot/efi.img"
"""Within an ISO: the file system that UEFI reads, with the same paths in it."""
NETWORK_IMAGE, NETWORK_LOADER = "talos.efi", "systemd-boot.efi"
"""In the folder of a web server from which firmware loads a UKI: it, and what is installed beside it."""
NETWORK_URL = "talos.boot.url"
"""The kernel argument of such a UKI with its own URL, by which an installation finds both."""
TRIAL_PROFILE = "trial"
"""The profile of a UKI whose kernel has the argument of a system that is started once."""
PROFILE_MARK = "@"
"""Between a file's name and a profile in the id of an entry."""
MAX_OS_RELEASE = 8192
_ENTRY = re.compile(r"talos-([ab])\.efi(?:@[a-z0-9]+)?", re.ASCII | re.IGNORECASE)


def name_slot(slot: str) -> str:
    """A slot's file, which is also the entry that starts it."""
    return f"talos-{slot.lower()}.efi"


def name_revocations(slot: str) -> str:
    """Within EFI: what the firmware is to refuse once the slot has its good verdict, an update of dbx.

    Not in the folder of a boot loader's trial, of which nothing stays with the verdict.
    """
    return f"EFI/DBX/SLOT-{slot}"


def name_trial(slot: str) -> str:
    """The entry that starts a slot on trial."""
    return f"{name_slot(slot)}{PROFILE_MARK}{TRIAL_PROFILE}"


def find_slot(entry: str) -> str:
    """The slot that an entry starts; empty for what is none's."""
    match = _ENTRY.fullmatch(entry)
    return match[1].upper() if match else ""


def read_version(path: Path) -> str:
    """The version of a UKI; empty for a file that is none."""
    try:
        with path.open("rb") as file:
            text = Program(file, path.stat().st_size).read_section(".osrel", MAX_OS_RELEASE)
    except (OSError, ValueError):
        return ""
    return parse_os_release(text.decode("utf-8", "replace")).get("VERSION_ID", "unknown")
