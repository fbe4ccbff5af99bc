"""``talosctl get``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from talos.api.cosi.meta_pb2 import ResourceDefinitionSpec
from talos.api.cosi.resource_pb2 import Resource
from talos.client.resources import convert_resources, find_definition
from talos.client.session import Session, open_session
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import Row, need_nodes, run_async
from talos.talosctl.client.complete import complete_resources
from talos.talosctl.client.fanout import call_nodes, report_failures
from talos.talosctl.client.flags import CLIENT_FLAGS, INSECURE_FLAGS
from talos.talosctl.client.select import find_target
from talos.talosctl.commands.get_watch import run_watch
from talos.talosctl.output import console
from talos.talosctl.output.jsonpath import Template
from talos.talosctl.output.resource import format_json, format_jsonpath, format_yaml, table_header, table_row
from talos.talosctl.output.table import format_lines

type Make[T] = Callable[[str, Resource, ResourceDefinitionSpec], T]
JSONPATH = "jsonpath="


def run_get(invocation: Invocation) -> int:
    """Resources of a type, all or by id."""
    output = invocation.flags.text("output")
    show = _choose_format(output)
    if invocation.flags.is_set("watch"):
        return run_watch(invocation, show)
    if show is None:
        return run_async(_run(invocation, table_row, _print_table))
    separator = "---\n" if output == "yaml" else ""
    return run_async(
        _run(
            invocation,
            lambda node, resource, _: show(node, resource),
            lambda found: _print_documents(found, separator),
        )
    )


@dataclass(frozen=True, slots=True)
class _Found[T]:
    """What a node has of a type, in the form in which it is shown: of 500 nodes it is kept."""

    definition: ResourceDefinitionSpec
    shown: Sequence[T]


async def _run[T](invocation: Invocation, make: Make[T], show: Callable[[Sequence[_Found[T]]], None]) -> int:
    flags, [kind, *ids] = invocation.flags, invocation.args

    async def call(session: Session, node: str) -> _Found[T]:
        definition = await find_definition(session, node, kind)
        namespace = flags.text("namespace") or definition.default_namespace
        shown = await convert_resources(
            session,
            node,
            namespace,
            definition.resource_type,
            ids,
            lambda resource: make(node, resource, definition),
        )
        return _Found(definition, shown)

    target = await find_target(flags)
    async with open_session(target) as session:
        outcomes = await call_nodes(session, need_nodes(target), call)
        show([outcome.value for outcome in outcomes if outcome.value])
        return report_failures(session, outcomes)


def _choose_format(output: str) -> Callable[[str, Resource], str] | None:
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


def _print_table(found: Sequence[_Found[Row]]) -> None:
    """With the fixed columns' titles alone when no node has an answer, as upstream: never nothing."""
    definition = found[0].definition if found else ResourceDefinitionSpec()
    header = table_header(definition, is_watch=False)
    console.write_lines(format_lines([header, *(row for one in found for row in one.shown)]))


def _print_documents(found: Sequence[_Found[str]], separator: str) -> None:
    for number, text in enumerate(text for one in found for text in one.shown):
        console.write(separator + text if number else text)


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
