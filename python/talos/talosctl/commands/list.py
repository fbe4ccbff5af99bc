"""``talosctl list``."""

import datetime
from collections.abc import Iterable, Sequence

from talos.api.machine.machine_pb2 import FileInfo, ListRequest
from talos.client.collected import within
from talos.client.session import Session, open_session
from talos.system.errors import UserError
from talos.system.sizes import format_pretty_size
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import Row, need_nodes, print_table, raise_error, run_async
from talos.talosctl.client.complete import complete_path
from talos.talosctl.client.fanout import Outcome, call_nodes, report_failures
from talos.talosctl.client.flags import CLIENT_FLAGS, OUTPUT
from talos.talosctl.client.select import find_target
from talos.talosctl.output import console
from talos.talosctl.output.units import format_beyond

TYPES = {
    "f": ListRequest.REGULAR,
    "regular": ListRequest.REGULAR,
    "d": ListRequest.DIRECTORY,
    "directory": ListRequest.DIRECTORY,
    "l": ListRequest.SYMLINK,
    "L": ListRequest.SYMLINK,
    "symlink": ListRequest.SYMLINK,
}
_SELINUX = "security.selinux"
_TYPE_LETTERS = "dalTLDpSugct?"
"""From bit 31 downward, as in Go's io/fs documentation."""
_PERMISSIONS = "rwxrwxrwx"
_HALF_A_YEAR = datetime.timedelta(days=183)


type Files = tuple[list[FileInfo], list[str]]
"""Files, and what is wrong with those that could not be looked at."""


def run_list(invocation: Invocation) -> int:
    """Names, or with --long one row for each file."""
    flags = invocation.flags
    is_long, is_human = flags.is_set("long"), flags.is_set("humanize")
    request = _make_request(invocation)

    async def call(session: Session, node: str) -> Files:
        files: list[FileInfo] = []
        errors: list[str] = []
        async with session.stream(node, "/machine.MachineService/List", request, FileInfo) as frames:
            async for info in within(frames, "list fewer folders, or of a lower --depth"):
                raise_error(info)
                if info.error:
                    errors.append(f"{info.name or request.root}: {info.error}")
                else:
                    files.append(info)
        return files, errors

    async def main() -> int:
        target = await find_target(flags)
        async with open_session(target) as session:
            outcomes = await call_nodes(session, need_nodes(target), call)
        if is_long:
            print_table(outcomes, _long_header(is_human=is_human), long_rows, flags.text("output"))
        else:
            print_table(outcomes, ("NODE", "NAME"), _short_rows, flags.text("output"))
        code = report_failures(session, outcomes)
        errors = _report_errors(outcomes)
        return code or errors

    def long_rows(node: str, answer: Files) -> Iterable[Row]:
        return (_long_row(node, info, is_human=is_human) for info in answer[0])

    return run_async(main())


def _short_rows(node: str, answer: Files) -> Iterable[Row]:
    return ((node, info.relative_name) for info in answer[0])


def _report_errors(outcomes: Sequence[Outcome[Files]]) -> int:
    """Name the files that could not be looked at; the exit code."""
    errors = [
        f"error: {outcome.node}: {error}" for outcome in outcomes for error in (outcome.value or ((), ()))[1]
    ]
    for error in errors:
        console.note(error)
    return 1 if errors else 0


def _make_request(invocation: Invocation) -> ListRequest:
    flags = invocation.flags
    unknown = [name for name in flags.texts("type") if name not in TYPES]
    if unknown:
        raise UserError(f'"{unknown[0]}" is no file type', where="--type", hint="use f, d or l")
    depth = flags.number("depth")
    return ListRequest(
        root=invocation.args[0] if invocation.args else "/",
        recurse=flags.is_set("recurse") or depth > 1,
        # 0 is without bound.
        recursion_depth=0 if flags.is_set("recurse") and not flags.is_given("depth") else depth,
        types=dict.fromkeys(TYPES[name] for name in flags.texts("type")),
        report_xattrs=flags.is_set("long"),
    )


def _long_header(*, is_human: bool) -> Row:
    return ("NODE", "MODE", "UID", "GID", "SIZE" if is_human else "SIZE(B)", "LASTMOD", "LABEL", "NAME")


def _long_row(node: str, info: FileInfo, *, is_human: bool) -> Row:
    label = next(
        (row.data.rstrip(b"\0").decode("utf-8", "replace") for row in info.xattrs if row.name == _SELINUX), ""
    )
    return (
        node,
        format_mode(info.mode),
        str(info.uid),
        str(info.gid),
        format_pretty_size(info.size) if is_human else str(info.size),
        _format_modified(info.modified),
        label,
        f"{info.relative_name} -> {info.link}" if info.link else info.relative_name,
    )


def _format_modified(seconds: int) -> str:
    try:
        then = datetime.datetime.fromtimestamp(seconds).astimezone()
    except (OverflowError, ValueError, OSError):
        return format_beyond(seconds)
    is_old = datetime.datetime.now().astimezone() - then > _HALF_A_YEAR
    return f"{then:%b} {then.day:>2} " + (f" {then.year}" if is_old else f"{then:%H:%M:%S}")


def format_mode(mode: int) -> str:
    """``drwxr-xr-x``, ``Lrwxrwxrwx``, ``-rw-------``: Go's ``fs.FileMode``, whose type bits are not Unix'."""
    kinds = "".join(letter for bit, letter in enumerate(_TYPE_LETTERS) if mode & 1 << (31 - bit))
    bits = "".join(letter if mode & 1 << (8 - bit) else "-" for bit, letter in enumerate(_PERMISSIONS))
    return (kinds or "-") + bits


COMMAND = Command(
    name="list",
    aliases=("ls",),
    usage="[path]",
    summary="List the files of a folder",
    flags=(
        *CLIENT_FLAGS,
        OUTPUT,
        Flag(name="depth", short="d", type=Type.INT32, default="1", help="how many folders deep to look"),
        Flag(name="humanize", short="H", type=Type.BOOL, default="false", help="sizes with units"),
        Flag(name="long", short="l", type=Type.BOOL, default="false", help="also mode, owner, size and time"),
        Flag(name="recurse", short="r", type=Type.BOOL, default="false", help="look into all folders below"),
        Flag(
            name="type",
            short="t",
            type=Type.STRINGS,
            help="only files of a type: f (regular), d (directory), l (symlink)",
        ),
    ),
    maximum=1,
    run=run_list,
    complete=complete_path,
)
