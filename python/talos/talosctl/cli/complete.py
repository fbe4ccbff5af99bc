"""What may come next on a command line, for the shells' completion."""

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.cli.parse import find_command, visible_flags


class Directive(enum.IntFlag):
    """What a shell does with the offers; the bits of cobra's completion protocol that are used here."""

    DEFAULT = 0
    """Without an offer, the shell's own completion: files."""
    NO_SPACE = 2
    """Nothing is put behind the only offer: the word goes on."""
    NO_FILE_COMP = 4
    """Nothing but the offers."""

    @property
    def title(self) -> str:
        """The names as cobra's documentation has them."""
        names = ("".join(part.capitalize() for part in (bit.name or "").split("_")) for bit in self)
        return ", ".join(f"ShellCompDirective{name}" for name in names) or "ShellCompDirectiveDefault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """Offers, each with its meaning or an empty text, and the directive that ends them."""

    offers: tuple[tuple[str, str], ...]
    directive: Directive


_FILE_FLAGS = frozenset(
    {"talosconfig", "file", "config", "output", "patch-file", "with-secrets", "ca", "crt", "key", "csr"}
)


def complete(root: Command, argv: Sequence[str]) -> Completion:
    """What may stand in the place of the last argument, which may be empty."""
    *before, current = argv
    chain, left = find_command(root, before)
    rows = visible_flags(chain)
    is_flag = current.startswith("-") and "--" not in before
    pending = _pending_flag(before, rows)
    if pending is not None:
        return _flag_values(pending, current)
    if is_flag and "=" in current:
        # The shells' scripts keep what is left of the equals sign to themselves.
        name, _, value = current.partition("=")
        return _flag_values(_by_name(rows).get(name), value)
    if is_flag:
        return _completion(_flags(rows), current)
    command = chain[-1]
    if command.commands:
        return _completion(_commands(command), current)
    if command.complete is None:
        files = Directive.DEFAULT if command.maximum else Directive.NO_FILE_COMP
        return Completion(offers=(), directive=files)
    flags, args = _lenient(left, rows)
    invocation = Invocation(command=command, path=tuple(link.name for link in chain), flags=flags, args=args)
    found = sorted(set(command.complete(invocation, current)))
    return _completion(((argument, "") for argument in found), current)


def _completion(offers: Iterable[tuple[str, str]], current: str) -> Completion:
    fitting = tuple(offer for offer in offers if offer[0].startswith(current))
    # A folder's path goes on; so does a group of nodes that needs a value.
    goes_on = len(fitting) == 1 and fitting[0][0].endswith(("/", "="))
    space = Directive.NO_SPACE if goes_on else Directive.DEFAULT
    return Completion(offers=fitting, directive=Directive.NO_FILE_COMP | space)


def _by_name(rows: Sequence[Flag]) -> dict[str, Flag]:
    return {f"--{row.name}": row for row in rows} | {f"-{row.short}": row for row in rows if row.short}


def _pending_flag(before: Sequence[str], rows: Sequence[Flag]) -> Flag | None:
    flag = _by_name(rows).get(before[-1]) if before and "--" not in before else None
    return flag if flag and flag.type is not Type.BOOL else None


def _flag_values(flag: Flag | None, current: str) -> Completion:
    choices = flag.choices or flag.suggestions if flag else ()
    if flag is not None and not choices and flag.name in _FILE_FLAGS:
        return Completion(offers=(), directive=Directive.DEFAULT)
    # Of a list, the last value is completed.
    earlier, comma, _ = current.rpartition(",") if flag and flag.type is Type.STRINGS else ("", "", "")
    return _completion(((f"{earlier}{comma}{choice}", "") for choice in choices), current)


def _flags(rows: Sequence[Flag]) -> Iterator[tuple[str, str]]:
    for row in sorted(rows, key=lambda row: row.name):
        if not row.hidden:
            yield f"--{row.name}", row.help
            if row.short:
                yield f"-{row.short}", row.help


def _commands(command: Command) -> Iterator[tuple[str, str]]:
    for row in command.commands:
        if not row.hidden:
            yield from ((name, row.summary) for name in row.names())


def _lenient(argv: Sequence[str], rows: Sequence[Flag]) -> tuple[Flags, tuple[str, ...]]:
    """Flags and arguments of an unfinished line: what can't be read yet is passed over."""
    flags = Flags(rows)
    names = _by_name(rows)
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
