"""``talosctl processes``."""

from collections.abc import Iterable

from google.protobuf.empty_pb2 import Empty

from talos.api.machine.machine_pb2 import Process, ProcessesResponse, ProcessInfo
from talos.client.session import Session
from talos.system.errors import UserError
from talos.system.sizes import format_pretty_size
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag
from talos.talosctl.client.command import Row, parts, run_table
from talos.talosctl.client.flags import CLIENT_FLAGS, OUTPUT

HEADER = ("NODE", "PID", "STATE", "THREADS", "CPU-TIME", "VIRTMEM", "RESMEM", "LABEL", "COMMAND")


def run_processes(invocation: Invocation) -> int:
    """One row for each process, the largest first."""
    order = invocation.flags.text("sort")
    if order not in {"rss", "cpu"}:
        raise UserError(f'can\'t sort by "{order}"', where="--sort", hint="use rss or cpu")

    def rows(node: str, processes: list[ProcessInfo]) -> Iterable[Row]:
        by = _by_memory if order == "rss" else _by_time
        return (make_row(node, process) for process in sorted(processes, key=by, reverse=True))

    return run_table(invocation, HEADER, _fetch, rows)


def _by_memory(process: ProcessInfo) -> float:
    return process.resident_memory


def _by_time(process: ProcessInfo) -> float:
    return process.cpu_time


async def _fetch(session: Session, node: str) -> list[ProcessInfo]:
    reply = await session.unary(node, "/machine.MachineService/Processes", Empty(), ProcessesResponse)
    return [process for part in parts(reply, Process) for process in part.processes]


def make_row(node: str, process: ProcessInfo) -> Row:
    """The row of a process."""
    return (
        node,
        str(process.pid),
        process.state,
        str(process.threads),
        f"{process.cpu_time:.2f}",
        format_pretty_size(process.virtual_memory),
        format_pretty_size(process.resident_memory),
        process.label,
        _command(process),
    )


def _command(process: ProcessInfo) -> str:
    if not process.executable:
        return process.args or process.command
    name, _, rest = process.args.partition(" ")
    if process.executable.endswith(f"/{name.rpartition('/')[2]}"):
        return f"{process.executable} {rest}".rstrip()
    return process.args or process.executable


COMMAND = Command(
    name="processes",
    aliases=("p", "ps"),
    summary="List the running processes",
    flags=(
        *CLIENT_FLAGS,
        OUTPUT,
        Flag(name="sort", short="s", default="rss", help="the column to sort by: rss or cpu"),
    ),
    run=run_processes,
)
