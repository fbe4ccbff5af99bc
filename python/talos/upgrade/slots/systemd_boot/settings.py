"""``loader.conf`` on EFI, systemd-boot's settings: the default slot. Other lines stay as they are."""

from talos.upgrade.slots.systemd_boot.entry import find_slot, name_slot

PATH = "loader/loader.conf"
"""Within EFI."""
NEW_NAME = "loader.new"
"""The new file until it gets its name."""
MAX_SETTINGS = 16 << 10
"""Bytes of a file whose lines are kept."""
INITIAL = "timeout 3\n"
_DEFAULT = "default"


def make_settings(before: str, slot: str) -> str:
    """The settings with this slot as the default."""
    lines = [line for line in before.splitlines() if not _is_default(line)]
    return "".join(f"{line}\n" for line in (*lines, f"{_DEFAULT} {name_slot(slot)}"))


def find_entry(text: str) -> str:
    """The entry that is the default; empty without one."""
    lines = [line for line in text.splitlines() if _is_default(line)]
    return lines[-1].split(maxsplit=1)[1].strip() if lines else ""


def find_default(text: str) -> str:
    """The slot that is the default; ValueError without one."""
    entry = find_entry(text)
    slot = find_slot(entry)
    if not slot:
        raise ValueError(f"its default is {entry[:80]!r}" if entry else "it has no default")
    return slot


def _is_default(line: str) -> bool:
    words = line.split()
    return len(words) > 1 and words[0] == _DEFAULT
