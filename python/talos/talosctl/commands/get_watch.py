"""``talosctl get --watch``."""

from collections.abc import Callable, Sequence

from talos.api.cosi.meta_pb2 import ResourceDefinitionSpec
from talos.api.cosi.resource_pb2 import Resource
from talos.api.cosi.state_pb2 import Event, EventType
from talos.api.rpc import Code, RpcError
from talos.client.resources import find_definition, watch
from talos.client.session import Session
from talos.system.errors import UserError
from talos.talosctl.cli.command import Invocation
from talos.talosctl.client.command import ignore, run_each
from talos.talosctl.output import console
from talos.talosctl.output.resource import table_header, table_row
from talos.talosctl.output.table import GrowingTable

SIGNS = {EventType.CREATED: "+", EventType.UPDATED: "~", EventType.DESTROYED: "-"}


class _Printer:
    """Events as rows of a table that grows, or as documents.

    What is there at the beginning is kept until all of it is known, so that its columns fit.
    """

    def __init__(self, show: Callable[[str, Resource], str] | None, *, is_yaml: bool) -> None:
        self._show = show
        self._separator = "---\n" if is_yaml else ""
        self._table: GrowingTable | None = None
        self._is_first = True

    def print(self, node: str, definition: ResourceDefinitionSpec, events: Sequence[Event]) -> None:
        if self._show is None:
            if self._table is None:
                self._table = GrowingTable(table_header(definition, is_watch=True))
            rows = [table_row(node, event.resource, definition, SIGNS[event.event_type]) for event in events]
            console.write(self._table.add(rows))
        else:
            for event in events:
                console.write(("" if self._is_first else self._separator) + self._show(node, event.resource))
                self._is_first = False
        console.flush()


def run_watch(invocation: Invocation, show: Callable[[str, Resource], str] | None) -> int:
    """Show what is there, then every change, until interrupted."""
    flags = invocation.flags
    kind, *ids = invocation.args
    if len(ids) > 1:
        raise UserError("--watch takes one id at most", hint="leave out the ids to watch the whole type")
    printer = _Printer(show, is_yaml=flags.text("output") == "yaml")

    async def follow(session: Session, node: str) -> None:
        definition = await find_definition(session, node, kind)
        namespace = flags.text("namespace") or definition.default_namespace
        identifier = ids[0] if ids else ""
        async with watch(session, node, namespace, definition.resource_type, identifier) as replies:
            initial: list[Event] | None = None if identifier else []
            async for reply in replies:
                for event in reply.event:
                    if event.event_type == EventType.ERRORED:
                        raise RpcError(Code.UNKNOWN, event.error)
                    if event.event_type == EventType.BOOTSTRAPPED and initial is not None:
                        printer.print(node, definition, initial)
                        initial = None
                    # The tombstone of a resource that never was has no id.
                    elif event.event_type in SIGNS and event.resource.metadata.id:
                        if initial is None:
                            printer.print(node, definition, [event])
                        else:
                            initial.append(event)

    return run_each(invocation, follow, ignore, shows_wait=False)
