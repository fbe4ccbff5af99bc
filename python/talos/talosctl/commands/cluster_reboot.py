"""``talosctl cluster reboot``."""

from pathlib import Path

from talos.provision.local import reboot_node, show_cluster
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.commands.cluster_create import check_local
from talos.talosctl.commands.cluster_logs import choose_nodes
from talos.talosctl.output import console


def run_reboot(invocation: Invocation) -> int:
    """Reset the nodes: nothing in them is asked."""
    flags = invocation.flags
    check_local(flags)
    directory = Path(flags.text("state"))
    name = flags.text("name")
    nodes = choose_nodes(show_cluster(name, directory), flags.texts("node"))
    for node in reboot_node(name, directory, [node.name for node in nodes]):
        console.note(f"{node} starts again")
    return 0


COMMAND = Command(
    name="reboot",
    summary="Reboot nodes from the outside, as by a reset button",
    flags=(Flag(name="node", short="n", type=Type.STRINGS, help="names or addresses, by default all nodes"),),
    run=run_reboot,
)
