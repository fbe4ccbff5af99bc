"""``grub.cfg`` on BOOT, which has the slots and the default.

GRUB clears ``next_entry`` before it starts the slot that it names. Where it can't, or where the file holds
anything else, the default is booted.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from talos.system.errors import UserError
from talos.upgrade.slots.grub.environment import choose_slot
from talos.upgrade.state import SLOTS

PATH = "grub/grub.cfg"
"""Within BOOT."""
TIMEOUT = 3
"""Seconds for a choice at the console."""
KERNEL = "vmlinuz"
INITRAMFS = "initramfs"
WIPE_ARGUMENT = "talos.experimental.wipe=system:EPHEMERAL,STATE"
"""Of the entry that resets the machine: config and data go, the installed system stays."""
_FIRST, _SECOND = 0, 1
"""Places in the menu. GRUB finds the default by its title, but a fallback by its place only."""
CRASH_LOG = (
    "reserve_mem=1M:256M:crash",
    "ramoops.mem_name=crash",
    "ramoops.console_size=0x80000",
    "ramoops.record_size=0x10000",
    "ramoops.ftrace_size=0",
    "ramoops.pmsg_size=0",
)
"""Memory that a reset leaves alone, for the kernel's log, where no UEFI keeps what it logs in a panic.

The highest multiple of 256 MiB that is free, which is the same in both slots unless the kernel, whose place
is random, lies there: a locked down kernel accepts no address.
"""
_CRASH_LOG_VARIABLE, _TRIAL_VARIABLE = "$crashlog", "$trial"
DEFAULT_ARGUMENTS = ("talos.platform=metal", "console=ttyS0", "console=tty0")
"""After those of the image, which replace those of the same name; the last console is the one that PID 1
writes to."""
_BEGINNING = (
    "set crashlog=",
    'if [ "$grub_platform" = "pc" ]; then',
    f"  set crashlog='{' '.join(CRASH_LOG)}'",
    "fi",
    "",
    # Before anything that may fail, so that it is shown.
    "insmod all_video",
    "serial --unit=0 --speed=115200",
    "terminal_input console serial",
    "terminal_output console serial",
)
_ENTRY = re.compile(r'^menuentry "([AB]) - Talos ([^"\n]*)" \{\n((?:  .*\n)*)\}$', re.MULTILINE)
_LINUX = re.compile(r"^  linux /[AB]/vmlinuz(.*)$", re.MULTILINE)
_DEFAULT = re.compile(r'^set default="([AB]) - ', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A slot that can be booted. ``arguments`` are the kernel's."""

    slot: str
    version: str
    arguments: tuple[str, ...]

    @property
    def title(self) -> str:
        """As the menu shows it; an upgrade finds the slots by how these begin."""
        return f"{self.slot} - Talos {self.version}"


def make_arguments(kernel: str, extra: Sequence[str] = ()) -> tuple[str, ...]:
    """The arguments of an installed system: ``kernel`` is the image's ``cmdline``, ``extra`` the config's.

    An extra argument that begins with ``-`` takes that argument, or all arguments of that name, away.
    """
    arguments = kernel.split()
    given = {_name(argument) for argument in arguments}
    arguments += [argument for argument in DEFAULT_ARGUMENTS if _name(argument) not in given]
    for argument in extra:
        _check(argument)
        if argument.startswith("-"):
            removed = argument.removeprefix("-")
            arguments = [other for other in arguments if removed not in (other, _name(other))]
        else:
            arguments.append(argument)
    return tuple(arguments)


def _name(argument: str) -> str:
    return argument.partition("=")[0]


def _check(argument: str) -> None:
    if not argument or any(character in argument for character in "\n\r\0'"):
        raise UserError(
            f"{argument!r} can't be a kernel argument",
            where="machine.install.extraKernelArgs",
            hint="no quotes ('), no line breaks",
        )


def make_config(entries: Sequence[Entry], default: str) -> str:
    """The file for these slots; ``default`` is the one that is booted, the other is the fallback."""
    by_slot = {entry.slot: entry for entry in entries}
    first = by_slot[default]
    others = [entry for entry in entries if entry.slot != default]
    lines = [
        f'set default="{first.title}"',
        *(f"set fallback={_SECOND}" for _ in others),
        f"set timeout={TIMEOUT}",
        "",
        *_BEGINNING,
        "",
        *(line for other in others for line in choose_slot(other.slot, other.title, _FIRST)),
    ]
    for entry in (first, *others):
        lines += ["", *_make_entry(entry.title, entry, entry.arguments, is_guarded=bool(others))]
    lines += ["", *_make_entry(f"Reset {first.title}", first, (*first.arguments, WIPE_ARGUMENT))]
    return "\n".join(lines) + "\n"


def make_start(kernel: str) -> str:
    """The config within GRUB's own image: it runs BOOT's, and where that is none, it starts slot A or else B.

    ``kernel`` is the image's ``cmdline``; those arguments that a machine's config adds are lost.
    """
    lines = [
        f"if [ -s /{PATH} ]; then",
        f"  source /{PATH}",
        "fi",
        'if [ -z "$default" ]; then',
        *_BEGINNING,
        f'echo "BOOT/{PATH} is missing or damaged: slot A is started, or else B."',
        "sleep --interruptible 5",
        f"set default={_FIRST}",
        f"set fallback={_SECOND}",
        f"set timeout={TIMEOUT}",
    ]
    for slot in SLOTS:
        entry = Entry(slot=slot, version="", arguments=make_arguments(kernel))
        lines += _make_entry(f"Slot {slot}", entry, entry.arguments)
    return "\n".join([*lines, "fi"]) + "\n"


def parse_config(text: str) -> tuple[tuple[Entry, ...], str]:
    """The slots of a file that :func:`make_config` made, and the default; ValueError for any other."""
    entries: list[Entry] = []
    for slot, version, body in _ENTRY.findall(text):
        linux = _LINUX.search(body)
        if linux is None:
            raise ValueError(f"slot {slot} has no kernel")
        entries.append(Entry(slot=slot, version=version, arguments=_parse_arguments(linux[1])))
    default = _DEFAULT.search(text)
    if default is None or default[1] not in [entry.slot for entry in entries]:
        raise ValueError("there is no default slot")
    return tuple(entries), default[1]


def _parse_arguments(text: str) -> tuple[str, ...]:
    return tuple(word for word in shlex.split(text) if word not in (_CRASH_LOG_VARIABLE, _TRIAL_VARIABLE))


def _make_entry(title: str, entry: Entry, arguments: Sequence[str], *, is_guarded: bool = False) -> list[str]:
    """A way to start a slot, with a watchdog where the commands above have set one."""
    variables = (_CRASH_LOG_VARIABLE, *([_TRIAL_VARIABLE] if is_guarded else []))
    words = [*map(_quote, arguments), *variables]
    place = f"/{entry.slot}"
    return [
        f'menuentry "{title}" {{',
        "  set gfxmode=auto",
        "  set gfxpayload=text",
        f"  linux {place}/{KERNEL} {' '.join(words)}",
        f"  initrd {place}/{INITRAMFS}",
        "}",
    ]


def _quote(argument: str) -> str:
    """For GRUB's shell, which expands ``$`` and ends a command at ``;`` like others."""
    return argument if re.fullmatch(r"[A-Za-z0-9_./:,=+@%-]+", argument) else f"'{argument}'"
