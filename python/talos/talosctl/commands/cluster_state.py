"""Commands on an existing local cluster: ``talosctl cluster show``, ``destroy``, ``reboot``."""

import tarfile
from pathlib import Path

from talos.client.endpoint import parse_endpoint
from talos.client.target import Target
from talos.provision.local import destroy_cluster, read_client, reboot_node, show_cluster
from talos.provision.progress import show_progress
from talos.provision.store import ClusterFolder
from talos.system.errors import UserError
from talos.system.sizes import format_pretty_size
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import run_async
from talos.talosctl.client.flags import OUTPUT
from talos.talosctl.commands.cluster_kubernetes import leave_kubernetes
from talos.talosctl.commands.cluster_logs import choose_nodes
from talos.talosctl.commands.cluster_options import check_local
from talos.talosctl.commands.support import check_path, write_bundle
from talos.talosctl.output import console
from talos.talosctl.output.rows import format_rows
from talos.talosctl.output.table import format_table


def run_show(invocation: Invocation) -> int:
    """Print the cluster and its nodes."""
    flags = invocation.flags
    check_local(flags)
    info = show_cluster(flags.text("name"), Path(flags.text("state")))
    header = ("NAME", "TYPE", "IP", "CPU", "RAM", "DISK", "STATE")
    rows = [
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
    if flags.text("output") != "table":
        console.write(format_rows(flags.text("output"), header, rows))
        return 0
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
    console.write(format_table([header, *rows]))
    return 0


SHOW = Command(
    name="show",
    summary="Show a cluster and its nodes",
    flags=(
        Flag(name="provisioner", default="container", help="accepted: the cluster's own is shown"),
        OUTPUT,
    ),
    run=run_show,
)


def run_destroy(invocation: Invocation) -> int:
    """Remove the cluster; nothing to remove is fine."""
    flags = invocation.flags
    check_local(flags)
    name, directory = flags.text("name"), Path(flags.text("state"))
    if support := flags.text("save-support-archive-path"):
        save_support(name, directory, Path(support))
    with show_progress() as progress:
        archive = flags.text("save-cluster-logs-archive-path")
        if archive:
            save_logs(directory / name, Path(archive))
        leave_kubernetes(ClusterFolder(directory / name), progress)
        was_there = destroy_cluster(name, directory, progress)
    if not was_there:
        console.note(f"there is no cluster {name}")
    return 0


def save_support(name: str, directory: Path, path: Path) -> None:
    """All nodes' support bundle; a cluster that does not answer any more is destroyed all the same."""
    check_path(path)
    info = show_cluster(name, directory)
    client = read_client(ClusterFolder(info.directory))
    if client is None:
        raise UserError("the cluster has no client file", where=str(info.directory))
    context = client.current
    target = Target(
        endpoints=tuple(parse_endpoint(text) for text in context.endpoints),
        nodes=tuple(str(node.address) for node in info.nodes),
        ca=context.ca,
        crt=context.crt,
        key=context.key,
    )
    run_async(write_bundle(target, target.nodes, path))


def save_logs(folder: Path, archive: Path) -> None:
    """All consoles and the launcher's log of a cluster as a compressed tar archive."""
    with tarfile.open(archive, "w:gz") as tar:
        for log in sorted((*folder.glob("*.log"), *folder.glob("*/console.log"))):
            tar.add(log, arcname=f"{folder.name}/{log.relative_to(folder)}")


DESTROY = Command(
    name="destroy",
    summary="Destroy a cluster with all that belongs to it",
    flags=(
        Flag(name="force", short="f", type=Type.BOOL, default="false", help="accepted, never needed"),
        Flag(name="save-cluster-logs-archive-path", help="first save the nodes' consoles as a .tar.gz"),
        Flag(name="save-support-archive-path", help="first save a support archive"),
    ),
    run=run_destroy,
)


def run_reboot(invocation: Invocation) -> int:
    """Reset the nodes; nothing in them is called."""
    flags = invocation.flags
    check_local(flags)
    directory = Path(flags.text("state"))
    name = flags.text("name")
    nodes = choose_nodes(show_cluster(name, directory), flags.texts("node"))
    for node in reboot_node(name, directory, [node.name for node in nodes]):
        console.note(f"{node} starts again")
    return 0


REBOOT = Command(
    name="reboot",
    summary="Reboot nodes from the outside, as by a reset button",
    flags=(Flag(name="node", short="n", type=Type.STRINGS, help="names or addresses, by default all nodes"),),
    run=run_reboot,
)


def run_sync(invocation: Invocation) -> int:
    """Nothing to send: machines of this machine start from the ISO that they were created with."""
    check_local(invocation.flags)
    hint = "create the cluster anew with another --iso-path"
    raise UserError("there are no clusters on other machines", where="--remote-endpoint", hint=hint)


SYNC = Command(
    name="sync",
    summary="Send a kernel and initramfs to a cluster on another machine",
    run=run_sync,
)
