"""What may come next on a command line, for the shells' completion."""

from collections.abc import Iterator, Sequence

from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.cli.parse import find_command, visible_flags

type Offer = tuple[str, str]
"""A completion and what it means."""

_FILE_FLAGS = frozenset(
    {"talosconfig", "file", "config", "output", "patch-file", "with-secrets", "ca", "crt", "key", "csr"}
)


def offers(root: Command, argv: Sequence[str]) -> tuple[list[Offer], bool]:
    """What may stand in the place of the last argument, and whether files may, too."""
    *before, current = argv or [""]
    chain, left = find_command(root, before)
    rows = visible_flags(chain)
    pending = _pending_flag(before, rows)
    if pending is not None:
        values, files = _flag_values(pending)
        return [(value, "") for value in values if value.startswith(current)], files
    if current.startswith("--") and "=" in current:
        name, _, value = current.partition("=")
        flag = next((row for row in rows if f"--{row.name}" == name), None)
        choices = _flag_values(flag)[0] if flag else ()
        return [(f"{name}={choice}", "") for choice in choices if choice.startswith(value)], False
    if current.startswith("-"):
        return [offer for offer in _flags(rows) if offer[0].startswith(current)], False
    command = chain[-1]
    if command.commands:
        return [offer for offer in _commands(command) if offer[0].startswith(current)], False
    if command.complete is None:
        return [], command.most != 0
    flags, args = _lenient(left, rows)
    invocation = Invocation(command=command, path=tuple(link.name for link in chain), flags=flags, args=args)
    found = sorted(set(command.complete(invocation, current)))
    return [(argument, "") for argument in found if argument.startswith(current)], False


def _pending_flag(before: Sequence[str], rows: Sequence[Flag]) -> Flag | None:
    last = before[-1] if before else ""
    names = {f"--{row.name}": row for row in rows} | {f"-{row.short}": row for row in rows if row.short}
    flag = names.get(last)
    return flag if flag and flag.type is not Type.BOOL else None


def _flag_values(flag: Flag) -> tuple[Sequence[str], bool]:
    return flag.choices, flag.name in _FILE_FLAGS


def _flags(rows: Sequence[Flag]) -> Iterator[Offer]:
    for row in sorted(rows, key=lambda row: row.name):
        if not row.hidden:
            yield f"--{row.name}", row.help
            if row.short:
                yield f"-{row.short}", row.help


def _commands(command: Command) -> Iterator[Offer]:
    for row in command.commands:
        if not row.hidden:
            yield from ((name, row.summary) for name in row.names())


def _lenient(argv: Sequence[str], rows: Sequence[Flag]) -> tuple[Flags, tuple[str, ...]]:
    """Flags and arguments of an unfinished line: what can't be read yet is passed over."""
    flags = Flags(rows)
    names = {f"--{row.name}": row for row in rows} | {f"-{row.short}": row for row in rows if row.short}
    args: list[str] = []
    left = list(argv)
    while left:
        argument = left.pop(0)
        name, has_value, value = argument.partition("=")
        row = names.get(name)
        if row is None:
            if not argument.startswith("-"):
                args.append(argument)
            continue
        if not has_value:
            value = "true" if row.type is Type.BOOL else (left.pop(0) if left else "")
        try:
            flags.set(row, value)
        except ValueError:
            continue
    return flags, tuple(args)
