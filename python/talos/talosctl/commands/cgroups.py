"""``talosctl cgroups``."""

import tempfile
from collections.abc import Mapping

from google.protobuf.empty_pb2 import Empty

from talos.api.common.common_pb2 import ContainerDriver
from talos.api.machine.machine_pb2 import (
    Container,
    ContainersRequest,
    ContainersResponse,
    Process,
    ProcessesResponse,
)
from talos.api.rpc import RpcError
from talos.client.namespaces import container_place
from talos.client.session import Session
from talos.system.errors import UserError
from talos.system.files import read_file
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.archive import UNREADABLE, receive_archive
from talos.talosctl.client.cgroups import Group, read_groups
from talos.talosctl.client.command import Row, parts, run_one
from talos.talosctl.client.flags import CLIENT_FLAGS, OUTPUT
from talos.talosctl.output import console
from talos.talosctl.output.columns import PRESETS, Value, read_schema
from talos.talosctl.output.rows import format_rows

ROOT = "/sys/fs/cgroup"


def run_cgroups(invocation: Invocation) -> int:
    """The tree of control groups with a table of what a preset or schema names."""
    flags = invocation.flags
    columns = _columns(flags.text("preset"), flags.text("schema-file"))

    async def call(session: Session, node: str) -> None:
        with tempfile.TemporaryFile() as archive:
            # The archive leaves out groups that were removed meanwhile.
            await receive_archive(session, node, ROOT, archive)
            archive.seek(0)
            try:
                root = read_groups(archive)
            except UNREADABLE as error:
                raise UserError(f"its control groups can't be read: {error}", where=node) from error
        if not root.files:
            raise UserError("the node has no control groups of version 2", where=node)
        processes = await _processes(session, node)
        is_resolved = not flags.is_set("skip-cri-resolve")
        containers = await _containers(session, node) if is_resolved else dict[str, str]()
        header, output = ("NAME", *(title for title, _ in columns)), flags.text("output")
        rows = _rows(root, columns, processes, containers, is_tree=output == "table")
        console.write(format_rows(output, header, rows))

    return run_one(invocation, "cgroups", call)


def _columns(preset: str, schema: str) -> tuple[tuple[str, Value], ...]:
    if bool(preset) == bool(schema):
        raise UserError(
            "one of them is needed", where="--preset, --schema-file", hint=f"presets: {', '.join(PRESETS)}"
        )
    if schema:
        return read_schema(read_file(schema).decode("utf-8", "replace"), schema)
    if preset not in PRESETS:
        raise UserError(f'there is no preset "{preset}"', where="--preset", hint=f"use {', '.join(PRESETS)}")
    return PRESETS[preset]


async def _processes(session: Session, node: str) -> Mapping[int, str]:
    reply = await session.unary(node, "/machine.MachineService/Processes", Empty(), ProcessesResponse)
    return {
        process.pid: process.executable.rpartition("/")[2] or process.command
        for part in parts(reply, Process)
        for process in part.processes
    }


async def _containers(session: Session, node: str) -> Mapping[str, str]:
    """Names of Kubernetes' containers and pods by the names of their groups; none where it does not run."""
    namespace, driver = container_place(is_kubernetes=True)
    assert driver == ContainerDriver.CRI
    request = ContainersRequest(namespace=namespace, driver=driver)
    try:
        reply = await session.unary(node, "/machine.MachineService/Containers", request, ContainersResponse)
        rows = [row for part in parts(reply, Container) for row in part.containers]
    except RpcError:
        return {}
    names = {row.internal_id or row.id: f"{row.pod_id}/{row.name}" for row in rows}
    return names | {f"pod{row.uid}": row.pod_id for row in rows if row.uid}


def _rows(
    root: Group,
    columns: tuple[tuple[str, Value], ...],
    processes: Mapping[int, str],
    containers: Mapping[str, str],
    *,
    is_tree: bool,
) -> list[Row]:
    """A row for each group. Its name is drawn into the tree, or for programs is its path."""
    above = {id(child): group for _, group in root.walk() for child in group.groups.values()}
    paths: dict[int, str] = {}
    rows: list[Row] = []
    for prefix, group in root.walk():
        parent = above.get(id(group))
        paths[id(group)] = f"{paths[id(parent)]}/{group.name}".removeprefix("./") if parent else group.name
        name = prefix + containers.get(group.name, group.name) if is_tree else paths[id(group)]
        rows.append((name, *(value(group, parent, processes) for _, value in columns)))
    return rows


COMMAND = Command(
    name="cgroups",
    aliases=("cg",),
    summary="Show the tree of control groups and what they use",
    details="Shows the tree of the node's control groups, with columns of a preset "
    f"({', '.join(PRESETS)}) or of a schema file.",
    example="talosctl cgroups --preset memory",
    flags=(
        *CLIENT_FLAGS,
        OUTPUT,
        Flag(name="preset", help=f"the columns to show: {', '.join(PRESETS)}"),
        Flag(name="schema-file", help="a file that names the columns: columns: [{name: …, template: …}]"),
        Flag(
            name="skip-cri-resolve",
            type=Type.BOOL,
            default="false",
            help="show the groups of containers by id, not by name",
        ),
    ),
    exclusive=(("preset", "schema-file"),),
    run=run_cgroups,
)
