"""``talosctl cluster show``."""

from pathlib import Path

from talos.provision.local import show_cluster
from talos.system.sizes import format_pretty_size
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag
from talos.talosctl.commands.cluster_create import check_local
from talos.talosctl.output import console
from talos.talosctl.output.table import format_table


def run_show(invocation: Invocation) -> int:
    """Print the cluster and its nodes."""
    flags = invocation.flags
    check_local(flags)
    info = show_cluster(flags.text("name"), Path(flags.text("state")))
    console.write(
        format_table(
            [
                ("PROVISIONER", info.provider),
                ("NAME", info.name),
                ("NETWORK CIDR", str(info.subnet)),
                ("NETWORK GATEWAY", str(info.gateway)),
                ("NETWORK MTU", str(info.mtu)),
                ("IMAGE", str(info.image)),
                ("LAUNCHER", f"pid {info.launcher}" if info.launcher else "not running"),
            ]
        )
    )
    console.write_line("\nNODES:\n")
    rows = [("NAME", "TYPE", "IP", "CPU", "RAM", "DISK", "STATE")]
    rows += [
        (
            node.name,
            node.role.value,
            str(node.address),
            f"{node.cpus:.2f}" if node.cpus else "-",
            format_pretty_size(node.memory) if node.memory else "-",
            format_pretty_size(node.disk),
            node.state.value,
        )
        for node in info.nodes
    ]
    console.write(format_table(rows))
    return 0


COMMAND = Command(
    name="show",
    summary="Show a cluster and its nodes",
    flags=(Flag(name="provisioner", default="container", help="accepted: there is one"),),
    run=run_show,
)
