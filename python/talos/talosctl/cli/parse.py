"""From argv to a command, its flags and its arguments."""

from collections.abc import Sequence

from talos.talosctl.cli.command import HELP, Command, Invocation, child
from talos.talosctl.cli.flag import Flag, Flags, Type


class UsageError(Exception):
    """The command line itself is wrong. ``path`` is the command whose help explains it."""

    def __init__(self, message: str, path: Sequence[str]) -> None:
        super().__init__(message)
        self.message = message
        self.path = tuple(path)


def find_command(root: Command, argv: Sequence[str]) -> tuple[tuple[Command, ...], list[str]]:
    """The chain of commands that argv names, and the rest of argv.

    It is read from the left and flags are skipped. As in the original, a flag that
    the group does not have is taken to have its value in the next argument, so that
    ``talosctl -n 10.0.0.2 version`` works though ``-n`` belongs to ``version``.
    """
    chain = (root,)
    left = list(argv)
    while True:
        position = _first_argument(left, visible_flags(chain))
        found = None if position is None else child(chain[-1], left[position])
        if position is None or found is None:
            return chain, left
        del left[position]
        chain = (*chain, found)


def _without_ignored(
    root: Command, argv: Sequence[str], left: Sequence[str], rows: Sequence[Flag]
) -> list[str]:
    """What is left of argv without ignored flags before the first name that the command does not take."""
    before = _first_argument(argv, visible_flags((root,))) or 0
    taken = {f"--{row.name}" for row in rows} | {f"-{row.short}" for row in rows if row.short}
    kept: list[str] = []
    position = 0
    while position < before:
        argument = left[position]
        name = argument.partition("=")[0] if argument.startswith("--") else argument[:2]
        size = _length(argument, HELP if name in {"-h", "--help"} else None)
        if name not in root.ignored or name in taken:
            kept += left[position : position + size]
        position += size
    return [*kept, *left[position:]]


def _first_argument(argv: Sequence[str], flags: Sequence[Flag]) -> int | None:
    by_name = {f"--{flag.name}": flag for flag in flags} | {
        f"-{flag.short}": flag for flag in flags if flag.short
    }
    position = 0
    while position < len(argv):
        argument = argv[position]
        if argument == "--":
            return None
        if not argument.startswith("-") or argument == "-":
            return position
        position += _length(argument, by_name.get(argument))
    return None


def _length(argument: str, known: Flag | None) -> int:
    """How many arguments a flag is, with its value."""
    is_bool = known is not None and known.type is Type.BOOL
    return 1 if is_bool or "=" in argument or not (argument.startswith("--") or len(argument) == 2) else 2


def visible_flags(chain: Sequence[Command]) -> tuple[Flag, ...]:
    """The flags that the last command of a chain takes."""
    own = (*chain[-1].flags, *chain[-1].inherited, HELP)
    names = {flag.name for flag in own}
    above = [flag for parent in chain[:-1] for flag in parent.inherited if flag.name not in names]
    return (*own, *above)


def parse(root: Command, argv: Sequence[str]) -> Invocation:
    """The invocation of a command line; raises UsageError."""
    chain, left = find_command(root, argv)
    path = tuple(command.name for command in chain)
    rows = visible_flags(chain)
    left = _without_ignored(root, argv, left, rows)
    flags = Flags(rows)
    args = _parse_flags(left, rows, flags, path)
    command = chain[-1]
    invocation = Invocation(command=command, path=path, flags=flags, args=tuple(args))
    if not flags.is_set("help"):
        _check(invocation, rows)
    return invocation


def _parse_flags(argv: Sequence[str], rows: Sequence[Flag], flags: Flags, path: Sequence[str]) -> list[str]:
    by_name = {row.name: row for row in rows}
    by_short = {row.short: row for row in rows if row.short}
    args: list[str] = []
    left = list(argv)
    while left:
        argument = left.pop(0)
        if argument == "--":
            return [*args, *left]
        if not argument.startswith("-") or argument == "-":
            args.append(argument)
        elif argument.startswith("--"):
            name, has_value, value = argument[2:].partition("=")
            row = by_name.get(name)
            if row is None:
                raise UsageError(f"unknown flag: --{name}", path)
            _take(row, value if has_value else None, f"--{name}", left, flags, path)
        else:
            _parse_shorthands(argument, by_short, left, flags, path)
    return args


def _parse_shorthands(
    argument: str, by_short: dict[str, Flag], left: list[str], flags: Flags, path: Sequence[str]
) -> None:
    letters = argument[1:]
    while letters:
        row = by_short.get(letters[0])
        if row is None:
            raise UsageError(f"unknown shorthand flag: '{letters[0]}' in {argument}", path)
        letter, letters = letters[0], letters[1:]
        if letters.startswith("="):
            value, letters = letters[1:], ""
        elif row.type is Type.BOOL:
            value = "true"
        else:
            value, letters = letters or None, ""
        _take(row, value, f"'{letter}' in {argument}", left, flags, path)


def _take(
    row: Flag, value: str | None, written: str, left: list[str], flags: Flags, path: Sequence[str]
) -> None:
    if value is None and row.type is Type.BOOL:
        value = "true"
    if value is None:
        if not left:
            raise UsageError(f"flag needs an argument: {written}", path)
        value = left.pop(0)
    try:
        flags.set(row, value)
    except ValueError as error:
        message = f'invalid argument "{value}" for "{row.title}" flag: {error}'
        raise UsageError(message, path) from None


def _check(invocation: Invocation, rows: Sequence[Flag]) -> None:
    command, path = invocation.command, invocation.path
    count = len(invocation.args)
    if command.commands and count > command.maximum >= 0:
        raise UsageError(_unknown_command(command, path, invocation.args[0]), path)
    if command.run is None:
        return
    if count < command.minimum or (command.maximum >= 0 and count > command.maximum):
        raise UsageError(_wrong_arguments(command, invocation.args, path), path)
    missing = [row.name for row in rows if row.required and not invocation.flags.is_given(row.name)]
    if missing:
        names = ", ".join(f'"{name}"' for name in missing)
        raise UsageError(f"required flag(s) {names} not set", path)
    for group in command.exclusive:
        given = [name for name in group if invocation.flags.is_given(name)]
        if len(given) > 1:
            raise UsageError(
                f"only one of the flags {', '.join('--' + name for name in given)} can be set", path
            )


def _wrong_arguments(command: Command, args: Sequence[str], path: Sequence[str]) -> str:
    count = len(args)
    if command.maximum == 0:
        return _unknown_command(command, path, args[0])
    if command.minimum == command.maximum:
        return f"accepts {command.minimum} arg(s), received {count}"
    if count < command.minimum:
        return f"requires at least {command.minimum} arg(s), only received {count}"
    if command.minimum == 0:
        return f"accepts at most {command.maximum} arg(s), received {count}"
    return f"accepts between {command.minimum} and {command.maximum} arg(s), received {count}"


def _unknown_command(command: Command, path: Sequence[str], argument: str) -> str:
    message = f'unknown command "{argument}" for "{" ".join(path)}"'
    names = [name for row in command.commands if not row.hidden for name in row.names()]
    import difflib  # only for a mistake: it costs every command two milliseconds

    close = difflib.get_close_matches(argument, names, n=3, cutoff=0.6)
    if close:
        message += ". Did you mean " + " or ".join(f'"{name}"' for name in close) + "?"
    return message
