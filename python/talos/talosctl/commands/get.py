"""``talosctl get``."""

from collections.abc import Callable, Sequence

from talos.api.cosi.meta_pb2 import ResourceDefinitionSpec
from talos.api.cosi.resource_pb2 import Resource
from talos.client.resources import find_definition, get_resources
from talos.client.session import Session, open_session
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import need_nodes, run_async
from talos.talosctl.client.complete import complete_resources
from talos.talosctl.client.fanout import call_nodes, report_failures
from talos.talosctl.client.flags import CLIENT_FLAGS, INSECURE_FLAGS
from talos.talosctl.client.select import find_target
from talos.talosctl.commands.get_watch import run_watch
from talos.talosctl.output import console
from talos.talosctl.output.jsonpath import Template
from talos.talosctl.output.resource import format_json, format_jsonpath, format_yaml, table_header, table_row
from talos.talosctl.output.table import format_table

type Found = tuple[ResourceDefinitionSpec, list[Resource]]
JSONPATH = "jsonpath="


def run_get(invocation: Invocation) -> int:
    """Resources of a type, all or by id."""
    flags = invocation.flags
    show = _shower(flags.text("output"))
    if flags.is_set("watch"):
        return run_watch(invocation, show)
    kind, *ids = invocation.args

    async def call(session: Session, node: str) -> Found:
        definition = await find_definition(session, node, kind)
        namespace = flags.text("namespace") or definition.default_namespace
        return definition, await get_resources(session, node, namespace, definition.resource_type, tuple(ids))

    async def main() -> int:
        target = await find_target(flags)
        async with open_session(target) as session:
            outcomes = await call_nodes(session, need_nodes(target), call)
            found = [(outcome.node, outcome.value) for outcome in outcomes if outcome.value]
            if show is None:
                _print_table(found)
            else:
                _print_documents(found, show, is_yaml=flags.text("output") == "yaml")
            return report_failures(session, outcomes)

    return run_async(main())


def _shower(output: str) -> Callable[[str, Resource], str] | None:
    """How to print one resource; None is a table."""
    if output == "table":
        return None
    if output == "yaml":
        return format_yaml
    if output == "json":
        return format_json
    if output.startswith(JSONPATH):
        template = Template(output.removeprefix(JSONPATH))
        return lambda node, resource: format_jsonpath(template, node, resource)
    raise UserError(
        f'"{output}" is no output format', where="--output", hint="use table, yaml, json or jsonpath='{...}'"
    )


def _print_table(found: Sequence[tuple[str, Found]]) -> None:
    if found:
        header = table_header(found[0][1][0], is_watch=False)
        rows = [
            table_row(node, resource, definition) for node, (definition, list_) in found for resource in list_
        ]
        console.write(format_table([header, *rows]))


def _print_documents(
    found: Sequence[tuple[str, Found]], show: Callable[[str, Resource], str], *, is_yaml: bool
) -> None:
    texts = [show(node, resource) for node, (_, list_) in found for resource in list_]
    console.write(("---\n" if is_yaml else "").join(texts))


COMMAND = Command(
    name="get",
    aliases=("g",),
    usage="<type> [<id>]",
    summary="Show resources: what the node is meant to be and what it is",
    details="Shows the resources of a type, or those named. `talosctl get rd` lists the types; a type "
    "may be named by its alias.",
    example="talosctl get addresses\ntalosctl get link eth0 -o yaml\n"
    "talosctl get members -o jsonpath='{.spec.hostname}'",
    flags=(
        *CLIENT_FLAGS,
        *INSECURE_FLAGS,
        Flag(name="namespace", help="the resources' namespace, by default the type's own"),
        Flag(
            name="output",
            short="o",
            default="table",
            suggestions=("table", "yaml", "json", JSONPATH),
            help="table, yaml, json or jsonpath='{...}'",
        ),
        Flag(name="watch", short="w", type=Type.BOOL, default="false", help="go on and show every change"),
    ),
    minimum=1,
    maximum=-1,
    run=run_get,
    complete=complete_resources,
)
