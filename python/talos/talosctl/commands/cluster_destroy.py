"""``talosctl cluster destroy``."""

import tarfile
from pathlib import Path

from talos.provision.local import destroy_cluster
from talos.provision.progress import show_progress
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.commands.cluster_create import check_local
from talos.talosctl.output import console


def run_destroy(invocation: Invocation) -> int:
    """Remove the cluster; nothing to remove is fine."""
    flags = invocation.flags
    check_local(flags)
    if flags.text("save-support-archive-path"):
        raise UserError("there is no support archive yet", where="--save-support-archive-path")
    name, directory = flags.text("name"), Path(flags.text("state"))
    with show_progress() as progress:
        archive = flags.text("save-cluster-logs-archive-path")
        if archive:
            save_logs(directory / name, Path(archive))
        was_there = destroy_cluster(name, directory, progress)
    if not was_there:
        console.note(f"there is no cluster {name}")
    return 0


def save_logs(folder: Path, archive: Path) -> None:
    """All consoles and the launcher's log of a cluster as a compressed tar archive."""
    with tarfile.open(archive, "w:gz") as tar:
        for log in sorted((*folder.glob("*.log"), *folder.glob("*/console.log"))):
            tar.add(log, arcname=f"{folder.name}/{log.relative_to(folder)}")


COMMAND = Command(
    name="destroy",
    summary="Destroy a cluster with all that belongs to it",
    flags=(
        Flag(name="force", short="f", type=Type.BOOL, default="false", help="accepted, never needed"),
        Flag(name="save-cluster-logs-archive-path", help="first save the nodes' consoles as a .tar.gz"),
        Flag(name="save-support-archive-path", help="first save a support archive"),
    ),
    run=run_destroy,
)
