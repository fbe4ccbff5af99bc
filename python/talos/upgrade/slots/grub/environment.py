"""GRUB's environment block on BOOT: the slot that is booted once, and the starts that were not confirmed.

``next_loader`` is there when only another GRUB may start that slot: the one in the folder of that file. Any
other starts the default and leaves both values, by which the machine sees that it did not come up.

GRUB counts every start of a default that has another slot beside it, and the machine sets the count back once
it has come up. GRUB has no arithmetic, so its config has a branch for each count:

``1`` to ``3``  starts of the default
``4`` to ``6``  starts of the other slot, since the default has not come up in three
``6``           neither has come up: GRUB waits at its menu for long, then starts the default again
"""

from collections.abc import Sequence
from dataclasses import dataclass

from talos.upgrade.state import ATTEMPTS, MAX_COUNT, SLOTS, TRIAL_ARGUMENT

ENVIRONMENT = "grub/grubenv"
"""Within BOOT."""
SIZE = 1024
"""Bytes of the file, which GRUB overwrites in place: it can't make a file longer."""
MENU_TIMEOUT = 300
"""Seconds that GRUB waits at its menu when neither slot has come up."""
_HEADER = b"# GRUB Environment Block\n"
_NEXT, _COUNT, _LOADER = "next_entry", "boot_count", "next_loader"
TRIAL_LOADER = "GRUBX64.EFI"
"""The file of a GRUB on trial, which has a folder of its own."""
NEITHER = f"Neither slot has come up in {ATTEMPTS} starts."
_REMEDY = "Choose one, or start another medium and install the system again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the file holds. ``count`` is the number of starts without a confirmation.

    ``by_trial_loader`` is whether only the GRUB on trial starts ``next_slot``.
    """

    next_slot: str = ""
    count: int = 0
    by_trial_loader: bool = False

    @property
    def waits_for_trial_loader(self) -> bool:
        """Whether the GRUB on trial has not come up yet to start ``next_slot``."""
        return bool(self.next_slot) and self.by_trial_loader


def make_environment(environment: Environment) -> bytes:
    """The file."""
    loader = TRIAL_LOADER if environment.by_trial_loader else ""
    lines = f"{_NEXT}={environment.next_slot}\n{_COUNT}={environment.count or ''}\n{_LOADER}={loader}\n"
    return (_HEADER + lines.encode()).ljust(SIZE, b"#")


def parse_environment(data: bytes) -> Environment:
    """What a file holds; ValueError for one that GRUB refuses, or with unknown values."""
    if len(data) != SIZE or not data.startswith(_HEADER):
        raise ValueError("not an environment block of GRUB")
    pairs = [line.partition("=") for line in data.decode("ascii", "replace").split("\n")]
    values = {name: value for name, _, value in pairs}
    slot, count, loader = values.get(_NEXT, ""), values.get(_COUNT, "") or "0", values.get(_LOADER, "")
    counts = map(str, range(MAX_COUNT + 1))
    if slot not in ("", *SLOTS) or count not in counts or loader not in ("", TRIAL_LOADER):
        raise ValueError(f"{_NEXT}={slot!r}, {_COUNT}={count!r}, {_LOADER}={loader!r}")
    return Environment(next_slot=slot, count=int(count), by_trial_loader=bool(loader))


def merge_environments(copies: Sequence[Environment]) -> Environment:
    """What the halves of a mirror hold together: GRUB writes the one that it was started from.

    It only empties ``next_slot`` and only adds to the count, and the machine writes all halves: what is
    farthest is true.
    """
    first = copies[0]
    return Environment(
        next_slot=first.next_slot if all(copy.next_slot == first.next_slot for copy in copies) else "",
        count=max(copy.count for copy in copies),
        by_trial_loader=any(copy.by_trial_loader for copy in copies),
    )


def choose_slot(slot: str, title: str, place: int) -> list[str]:
    """GRUB's commands that choose among the default and this other slot, whose fallback is at ``place``.

    A trial whose kernel can't be loaded ends with the default. A count that can't be written is no reason not
    to start the slot whose turn it is.
    """
    # GRUB's folder is in cmdpath, and in fw_path for one with the patches of Debian.
    save = f"save_env --file /{ENVIRONMENT}"
    start_other = [f'  set default="{title}"', f"  set fallback={place}"]
    guard = f"  set trial={TRIAL_ARGUMENT}"
    lines = [
        f"set {_NEXT}=",
        f"set {_COUNT}=",
        f"set {_LOADER}=",
        "set trial=",
        f"if [ -s /{ENVIRONMENT} ]; then",
        f"  load_env --file /{ENVIRONMENT} {_NEXT} {_COUNT} {_LOADER}",
        "fi",
        f'if [ -n "${_LOADER}" ]; then',
        f'  if [ ! -s "$cmdpath/${_LOADER}" -a ! -s "$fw_path/${_LOADER}" ]; then',
        f"    set {_NEXT}=",
        "  fi",
        "fi",
        f'if [ "${_NEXT}" = "{slot}" ]; then',
        f"  set {_NEXT}=",
        f"  if {save} {_NEXT}; then",
        *_indent((*start_other, guard)),
        "  fi",
        f'elif [ "${_COUNT}" = "{MAX_COUNT}" ]; then',
        f'  echo "{NEITHER}"',
        f'  echo "{_REMEDY}"',
        "  sleep --interruptible 10",
        f"  set timeout={MENU_TIMEOUT}",
        guard,
    ]
    for count in range(MAX_COUNT - 1, 0, -1):
        lines += [
            f'elif [ "${_COUNT}" = "{count}" ]; then',
            f"  set {_COUNT}={count + 1}",
            f"  {save} {_COUNT}",
        ]
        # From the second start on a watchdog ends one that hangs.
        lines += [*(start_other if count >= ATTEMPTS else ()), guard]
    return [*lines, "else", f"  set {_COUNT}=1", f"  {save} {_COUNT}", "fi"]


def _indent(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]
