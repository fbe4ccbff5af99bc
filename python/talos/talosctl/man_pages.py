"""The manual pages of talosctl, one a command, made of the rows that its help comes from."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from talos.talosctl.cli.command import HELP, Command, load
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.cli.help import shown_default, usage_lines
from talos.talosctl.cli.parse import visible_flags
from talos.talosctl.client_version import client_version
from talos.talosctl.tree import ROOT


def walk_commands(chain: Sequence[Command] = (ROOT,)) -> Iterator[Sequence[Command]]:
    """The chain of every command that help shows."""
    yield chain
    for row in chain[-1].commands:
        if not row.hidden:
            yield from walk_commands((*chain, load(row)))


def make_page(chain: Sequence[Command]) -> str:
    """One page in the macros of man(7)."""
    command, name = chain[-1], page_name(chain)
    lines = [
        f'.TH "{name.upper()}" "1" "" "{client_version().tag}" "talosctl"',
        *(".SH NAME", _text(f"{name} - {command.summary}")),
        *(".SH SYNOPSIS", ".nf", *map(_text, usage_lines(chain)), ".fi"),
        *(".SH DESCRIPTION", _text(command.details or command.summary)),
    ]
    if command.aliases:
        lines += [".SH ALIASES", _text(", ".join(command.aliases))]
    flags = [flag for flag in visible_flags(chain) if not flag.hidden and flag is not HELP]
    if flags:
        lines.append(".SH OPTIONS")
    for flag in sorted(flags, key=lambda flag: flag.name):
        default = shown_default(flag)
        lines += [".TP", _option(flag), _text(flag.help + (f" (default {default})" if default else ""))]
    if command.example:
        lines += [".SH EXAMPLES", ".nf", *map(_text, command.example.splitlines()), ".fi"]
    below = [page_name((*chain, load(row))) for row in command.commands if not row.hidden]
    above = [page_name(chain[:-1])] if len(chain) > 1 else []
    if other := [*above, *sorted(below)]:
        lines += [".SH SEE ALSO", ", ".join(f"\\fB{_escape(page)}\\fR(1)" for page in other)]
    return "\n".join(lines) + "\n"


def page_name(chain: Sequence[Command]) -> str:
    """``talosctl-config-add``."""
    return "-".join(command.name for command in chain)


def _option(flag: Flag) -> str:
    names = [f"-{flag.short}"] if flag.short else []
    names.append(f"--{flag.name}")
    value = flag.metavar or "|".join(flag.choices) or flag.type.value
    shown = "" if flag.type is Type.BOOL else f" \\fI{_escape(value)}\\fR"
    return ", ".join(f"\\fB{_escape(name)}\\fR" for name in names) + shown


def _text(text: str) -> str:
    # A line that begins with a dot or a quote would be a request; an empty one is a paragraph.
    lines = (_escape(line) for line in text.split("\n"))
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line or ".PP" for line in lines)


def _escape(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")


def main() -> int:
    """Write all pages into the folder that the one argument names."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    for chain in walk_commands():
        (folder / f"{page_name(chain)}.1").write_text(make_page(chain), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
