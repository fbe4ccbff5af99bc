"""The text that ``--help`` prints."""

import textwrap
from collections.abc import Iterable, Sequence

from talos.talosctl.cli.command import HELP, Command
from talos.talosctl.cli.flag import Flag, Type

INDENT = 10
"""Columns before a text that has no room beside its name."""
MIN_TEXT = 30
"""Columns that a text needs beside its name."""


def usage_lines(chain: Sequence[Command]) -> list[str]:
    """How a command is called."""
    command = chain[-1]
    path = " ".join(link.name for link in chain)
    lines: list[str] = []
    if command.run is not None:
        lines.append(f"{path} {command.usage} [flags]" if command.usage else f"{path} [flags]")
    if command.commands:
        lines.append(f"{path} [command]")
    return lines or [path]


def help_text(chain: Sequence[Command], width: int = 0) -> str:
    """The help of the last command of a chain, in lines of so many columns; 0: however long they are."""
    command = chain[-1]
    names = {flag.name for flag in (*command.flags, *command.inherited)}
    above = [flag for parent in chain[:-1] for flag in parent.inherited if flag.name not in names]
    sections = [_wrap(command.details or command.summary, width), _section("Usage:", usage_lines(chain))]
    if command.aliases:
        sections.append(_section("Aliases:", [", ".join(command.names())]))
    if command.example:
        sections.append(_section("Examples:", command.example.splitlines()))
    if command.commands:
        sections.append("\n".join(["Available Commands:", *_commands(command, width)]))
    sections.append("Flags:\n" + "\n".join(_flag_lines((*command.flags, *command.inherited, HELP), width)))
    if above:
        sections.append("Global Flags:\n" + "\n".join(_flag_lines(above, width)))
    if command.commands:
        path = " ".join(link.name for link in chain)
        sections.append(_wrap(f'Use "{path} [command] --help" for more about a command.', width))
    return "\n\n".join(sections) + "\n"


def _section(title: str, lines: Iterable[str]) -> str:
    return "\n".join([title, *(f"  {line}" for line in lines)])


def _commands(command: Command, width: int) -> list[str]:
    rows = sorted((row for row in command.commands if not row.hidden), key=lambda row: row.name)
    return _columns([(f"  {row.name}", row.summary) for row in rows], "  ", width)


def _flag_lines(flags: Iterable[Flag], width: int) -> list[str]:
    rows = sorted((flag for flag in flags if not flag.hidden), key=lambda flag: flag.name)
    return _columns([(_left(flag), _right(flag)) for flag in rows], "   ", width)


def _columns(rows: Sequence[tuple[str, str]], gap: str, width: int) -> list[str]:
    """Names with their texts beside them; below them where a terminal is too narrow for that."""
    start = max((len(name) for name, _ in rows), default=0) + len(gap)
    if not width or width - start >= MIN_TEXT:
        wrapped = [(name, _wrap(text, max(width - start, 0)).splitlines() or [""]) for name, text in rows]
        return [
            f"{name if number == 0 else '':<{start}}{line}".rstrip()
            for name, lines in wrapped
            for number, line in enumerate(lines)
        ]
    lines: list[str] = []
    for name, text in rows:
        lines += [name, *(" " * INDENT + line for line in _wrap(text, width - INDENT).splitlines())]
    return lines


def _wrap(text: str, width: int) -> str:
    """Lines of so many columns at most, unless a word is longer; 0: the text as it is."""
    if not width:
        return text
    paragraphs = text.split("\n")
    # Flags and names with a hyphen stay in one piece.
    return "\n".join(
        textwrap.fill(paragraph, width, break_long_words=False, break_on_hyphens=False)
        for paragraph in paragraphs
    )


def _left(flag: Flag) -> str:
    short = f"-{flag.short}, " if flag.short else "    "
    metavar = flag.metavar or (", ".join(flag.choices) if flag.choices else flag.type.value)
    return f"  {short}--{flag.name}" + ("" if flag.type is Type.BOOL else f" {metavar}")


def _right(flag: Flag) -> str:
    return flag.help + (f" (default {shown_default(flag)})" if shown_default(flag) else "")


def shown_default(flag: Flag) -> str:
    """The default as help shows it, empty when it is the usual one."""
    if not flag.default or (flag.type is Type.BOOL and flag.default == "false"):
        return ""
    if flag.is_list:
        return f"[{flag.default}]"
    return (
        f'"{flag.default}"'
        if flag.type is Type.STRING and not (flag.metavar or flag.choices)
        else flag.default
    )
