"""``talosctl cluster logs``."""

import time
from collections.abc import Sequence
from pathlib import Path

from talos.provision.cluster import ClusterInfo, NodeInfo
from talos.provision.local import show_cluster
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.commands.cluster_options import check_local
from talos.talosctl.output import console

POLL_INTERVAL = 0.2
"""Seconds between two checks of the files."""


def run_logs(invocation: Invocation) -> int:
    """Print the consoles of all nodes, or of one."""
    flags = invocation.flags
    check_local(flags)
    nodes = choose_nodes(show_cluster(flags.text("name"), Path(flags.text("state"))), invocation.args)
    readers = [_Console(node, is_only=len(nodes) == 1) for node in nodes]
    while True:
        for reader in readers:
            reader.print_new()
        console.flush()
        if not flags.is_set("follow"):
            break
        time.sleep(POLL_INTERVAL)
    for reader in readers:
        reader.print_rest()
    return 0


def choose_nodes(info: ClusterInfo, names: Sequence[str]) -> list[NodeInfo]:
    """The nodes of these names or addresses; all when none is named."""
    known = {name for node in info.nodes for name in (node.name, str(node.address))}
    missing = [name for name in names if name not in known]
    if missing:
        nodes = ", ".join(node.name for node in info.nodes)
        raise UserError(
            f"there is no node {missing[0]}", where=f"cluster {info.name}", hint=f"nodes: {nodes}"
        )
    return [node for node in info.nodes if not names or node.name in names or str(node.address) in names]


class _Console:
    def __init__(self, node: NodeInfo, *, is_only: bool) -> None:
        self._path = node.console
        self._prefix = "" if is_only else f"{node.name}: "
        self._position = 0
        self._rest = ""

    def print_new(self) -> None:
        """Whole lines that came since the last look."""
        try:
            with self._path.open("rb") as file:
                if file.seek(0, 2) < self._position:
                    self._position = 0
                file.seek(self._position)
                new = file.read()
        except FileNotFoundError:
            return
        self._position += len(new)
        *lines, self._rest = (self._rest + new.decode("utf-8", "replace")).split("\n")
        for line in lines:
            console.write_line(f"{self._prefix}{line.rstrip()}")

    def print_rest(self) -> None:
        """A last line without an end."""
        if self._rest:
            console.write_line(f"{self._prefix}{self._rest}")


COMMAND = Command(
    name="logs",
    usage="[machine]",
    summary="Show what the nodes wrote to their consoles",
    flags=(Flag(name="follow", short="f", type=Type.BOOL, default="false", help="go on as they grow"),),
    maximum=1,
    run=run_logs,
)
