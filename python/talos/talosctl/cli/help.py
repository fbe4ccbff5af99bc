"""The text that ``--help`` prints."""

from collections.abc import Iterable, Sequence

from talos.talosctl.cli.command import HELP, Command
from talos.talosctl.cli.flag import Flag, Type


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


def help_text(chain: Sequence[Command]) -> str:
    """The help of the last command of a chain."""
    command = chain[-1]
    names = {flag.name for flag in (*command.flags, *command.inherited)}
    above = [flag for parent in chain[:-1] for flag in parent.inherited if flag.name not in names]
    sections = [command.details or command.summary, _section("Usage:", usage_lines(chain))]
    if command.aliases:
        sections.append(_section("Aliases:", [", ".join(command.names())]))
    if command.example:
        sections.append(_section("Examples:", command.example.splitlines()))
    if command.commands:
        sections.append(_section("Available Commands:", _commands(command)))
    sections.append("Flags:\n" + "\n".join(_flag_lines((*command.flags, *command.inherited, HELP))))
    if above:
        sections.append("Global Flags:\n" + "\n".join(_flag_lines(above)))
    if command.commands:
        path = " ".join(link.name for link in chain)
        sections.append(f'Use "{path} [command] --help" for more about a command.')
    return "\n\n".join(sections) + "\n"


def _section(title: str, lines: Iterable[str]) -> str:
    return "\n".join([title, *(f"  {line}" for line in lines)])


def _commands(command: Command) -> list[str]:
    rows = sorted((row for row in command.commands if not row.hidden), key=lambda row: row.name)
    width = max((len(row.name) for row in rows), default=0)
    return [f"{row.name:<{width}}  {row.summary}" for row in rows]


def _flag_lines(flags: Iterable[Flag]) -> list[str]:
    rows = sorted((flag for flag in flags if not flag.hidden), key=lambda flag: flag.name)
    left = [_left(flag) for flag in rows]
    width = max(map(len, left), default=0)
    return [f"{name:<{width}}   {_right(flag)}" for name, flag in zip(left, rows, strict=True)]


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
