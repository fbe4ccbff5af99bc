"""GRUB's files on BOOT: ``grub.cfg`` has the slots and the default, ``grubenv`` the slot that is booted once.

GRUB clears ``next_entry`` before it starts the slot that it names. Where it can't, or where the file holds
anything else, the default is booted.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from talos.system.errors import UserError
from talos.upgrade.state import TRIAL_ARGUMENT

PATH = "grub/grub.cfg"
"""Within BOOT."""
ENVIRONMENT = "grub/grubenv"
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
"""Memory that a reset leaves alone, for the kernel's log, where no UEFI keeps what it says when it panics.

The highest multiple of 256 MiB that is free, which is the same in both slots unless the kernel, whose place
is random, lies there: a locked down kernel accepts no address.
"""
_CRASH_LOG_VARIABLE, _TRIAL_VARIABLE = "$crashlog", "$trial"
DEFAULT_ARGUMENTS = ("talos.platform=metal", "console=ttyS0", "console=tty0")
"""After those of the kernel; the last console is the one that PID 1 writes to."""
_ENTRY = re.compile(r'^menuentry "([AB]) - Talos ([^"\n]*)" \{\n((?:  .*\n)*)\}$', re.MULTILINE)
_LINUX = re.compile(r"^  linux /[AB]/vmlinuz(.*)$", re.MULTILINE)
_DEFAULT = re.compile(r'^set default="([AB]) - ', re.MULTILINE)
_ENVIRONMENT_SIZE = 1024
"""Bytes of the file, which GRUB overwrites in place: it can't make a file longer."""


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
    arguments = [*kernel.split(), *DEFAULT_ARGUMENTS]
    for argument in extra:
        _check(argument)
        if argument.startswith("-"):
            removed = argument.removeprefix("-")
            arguments = [other for other in arguments if removed not in (other, other.partition("=")[0])]
        else:
            arguments.append(argument)
    return tuple(arguments)


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
        "set crashlog=",
        'if [ "$grub_platform" = "pc" ]; then',
        f"  set crashlog='{' '.join(CRASH_LOG)}'",
        "fi",
        "",
        # First, so that what is wrong with the environment is shown.
        "insmod all_video",
        "serial --unit=0 --speed=115200",
        "terminal_input console serial",
        "terminal_output console serial",
        "",
        *(line for other in others for line in _boot_once(other)),
    ]
    for entry in (first, *others):
        lines += ["", *_make_entry(entry.title, entry, entry.arguments, is_on_trial=entry is not first)]
    lines += ["", *_make_entry(f"Reset {first.title}", first, (*first.arguments, WIPE_ARGUMENT))]
    return "\n".join(lines) + "\n"


def _boot_once(other: Entry) -> list[str]:
    """The way back from a slot that is booted once is the default, even when its kernel can't be loaded."""
    return [
        "set next_entry=",
        "set trial=",
        f"if [ -s /{ENVIRONMENT} ]; then",
        f"  load_env --file /{ENVIRONMENT} next_entry",
        "fi",
        f'if [ "$next_entry" = "{other.slot}" ]; then',
        "  set next_entry=",
        f"  if save_env --file /{ENVIRONMENT} next_entry; then",
        f'    set default="{other.title}"',
        f"    set fallback={_FIRST}",
        f"    set trial={TRIAL_ARGUMENT}",
        "  fi",
        "fi",
    ]


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


def make_environment(next_slot: str) -> bytes:
    """The file that has GRUB boot a slot once; without one, the default."""
    line = f"next_entry={next_slot}\n"
    return f"# GRUB Environment Block\n{line}".encode().ljust(_ENVIRONMENT_SIZE, b"#")


def _make_entry(
    title: str, entry: Entry, arguments: Sequence[str], *, is_on_trial: bool = False
) -> list[str]:
    variables = (_CRASH_LOG_VARIABLE, *([_TRIAL_VARIABLE] if is_on_trial else []))
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
