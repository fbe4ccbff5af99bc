"""``talosctl cluster``: local clusters on this machine."""

from pathlib import Path

from talos.talosctl.cli.command import Command, Lazy
from talos.talosctl.cli.flag import Flag

_COMMANDS = "talos.talosctl.commands."

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
    commands=(
        Lazy("create", (), "Create a local cluster", f"{_COMMANDS}cluster_create"),
        Lazy("destroy", (), "Destroy a cluster with all that belongs to it", f"{_COMMANDS}cluster_destroy"),
        Lazy("logs", (), "Show what the nodes wrote to their consoles", f"{_COMMANDS}cluster_logs"),
        Lazy(
            "reboot", (), "Reboot nodes from the outside, as by a reset button", f"{_COMMANDS}cluster_reboot"
        ),
        Lazy("show", (), "Show a cluster and its nodes", f"{_COMMANDS}cluster_show"),
    ),
)
