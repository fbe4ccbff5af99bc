"""``talosctl get --watch``."""

from collections.abc import Callable

from talos.api.cosi.meta_pb2 import ResourceDefinitionSpec
from talos.api.cosi.resource_pb2 import Resource
from talos.api.cosi.state_pb2 import Event, EventType
from talos.api.rpc import Code, RpcError
from talos.system.errors import UserError
from talos.talosctl.cli.command import Invocation
from talos.talosctl.client.command import need_nodes, run_async
from talos.talosctl.client.fanout import ask_nodes, report_failures
from talos.talosctl.client.resources import find_definition, watch
from talos.talosctl.client.select import select_target
from talos.talosctl.client.session import Session, open_session
from talos.talosctl.output import console
from talos.talosctl.output.resource import table_header, table_row
from talos.talosctl.output.table import PADDING

SIGNS = {EventType.CREATED: "+", EventType.UPDATED: "~", EventType.DESTROYED: "-"}


class _Printer:
    """Events as rows of a table that grows, or as documents."""

    def __init__(self, show: Callable[[str, Resource], str] | None, *, is_yaml: bool) -> None:
        self._show = show
        self._separator = "---\n" if is_yaml else ""
        self._widths: list[int] = []
        self._is_first = True

    def print(self, node: str, definition: ResourceDefinitionSpec, event: Event) -> None:
        if self._show is None:
            sign = SIGNS[event.event_type]
            row = table_row(node, event.resource, definition, sign)
            if self._is_first:
                header = table_header(definition, is_watch=True)
                self._fit(row)
                self._line(header)
            self._line(row)
        else:
            console.write(("" if self._is_first else self._separator) + self._show(node, event.resource))
        self._is_first = False
        console.flush()

    def _fit(self, row: tuple[str, ...]) -> None:
        wide = [len(cell) + PADDING for cell in row]
        self._widths = [max(old, new) for old, new in zip(self._widths or wide, wide, strict=True)]

    def _line(self, row: tuple[str, ...]) -> None:
        self._fit(row)
        cells = (cell.replace("\n", " ").ljust(width) for cell, width in zip(row, self._widths, strict=True))
        console.write_line("".join(cells).rstrip())


def run_watch(invocation: Invocation, show: Callable[[str, Resource], str] | None) -> int:
    """Show what is there, then every change, until interrupted."""
    flags = invocation.flags
    word, *ids = invocation.args
    if len(ids) > 1:
        raise UserError("--watch takes one id at most", hint="leave out the ids to watch the whole type")
    printer = _Printer(show, is_yaml=flags.text("output") == "yaml")

    async def follow(session: Session, node: str) -> None:
        definition = await find_definition(session, node, word)
        namespace = flags.text("namespace") or definition.default_namespace
        id = ids[0] if ids else ""
        async with watch(session, node, namespace, definition.resource_type, id) as replies:
            async for reply in replies:
                for event in reply.event:
                    if event.event_type == EventType.ERRORED:
                        raise RpcError(Code.UNKNOWN, event.error)
                    # The tombstone of a resource that never was has no version.
                    if event.event_type in SIGNS and event.resource.metadata.id:
                        printer.print(node, definition, event)

    async def main() -> int:
        target = select_target(flags)
        async with open_session(target) as session:
            outcomes = await ask_nodes(session, need_nodes(target), follow)
            return report_failures(session, outcomes)

    return run_async(main())
