"""``talosctl cluster``: local clusters on this machine."""

from pathlib import Path

from talos.talosctl.cli.command import Command, Lazy
from talos.talosctl.cli.flag import Flag

_COMMANDS = "talos.talosctl.commands.cluster_"
_STATE = "talos.talosctl.commands.cluster_state:"

COMMAND = Command(
    name="cluster",
    summary="Create and destroy local clusters",
    inherited=(
        Flag(name="name", default="talos-default", help="the name of the cluster"),
        Flag(
            name="state",
            default=str(Path("~/.talos/clusters").expanduser()),
            help="the folder that holds the clusters' state",
        ),
        Flag(name="remote-endpoint", help="create the cluster on another machine"),
    ),
    commands=tuple(
        Lazy(name, (), summary, module, for_linux=True)
        for name, summary, module in (
            ("create", "Create a local cluster", _COMMANDS + "create"),
            ("destroy", "Destroy a cluster with all that belongs to it", _STATE + "DESTROY"),
            ("logs", "Show what the nodes wrote to their consoles", _COMMANDS + "logs"),
            ("reboot", "Reboot nodes from the outside, as by a reset button", _STATE + "REBOOT"),
            ("show", "Show a cluster and its nodes", _STATE + "SHOW"),
            ("sync", "Send a kernel and initramfs to a cluster on another machine", _STATE + "SYNC"),
        )
    ),
)
