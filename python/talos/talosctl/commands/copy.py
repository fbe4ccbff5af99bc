"""``talosctl copy``."""

import tempfile
from pathlib import Path

from talos.client.session import Session
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.client.archive import receive_archive, unpack
from talos.talosctl.client.command import run_one
from talos.talosctl.client.complete import complete_path
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.output import console

STDOUT = "-"


def run_copy(invocation: Invocation) -> int:
    """Unpack a folder of the node into a local one, or write the archive to the output."""
    source, destination = invocation.args
    folder = Path(destination)
    if destination != STDOUT and folder.exists() and not folder.is_dir():
        raise UserError("it exists and is no folder", where=destination, hint="name a folder to copy into")

    async def copy(session: Session, node: str) -> None:
        if destination == STDOUT:
            left_out = await receive_archive(session, node, source, None)
            console.flush_bytes()
            if left_out:
                raise left_out
            return
        # On disk: what arrives may be larger than the memory.
        with tempfile.TemporaryFile() as archive:
            left_out = await receive_archive(session, node, source, archive)
            if archive.tell():
                archive.seek(0)
                unpack(archive, folder)
            if left_out:
                raise left_out

    return run_one(invocation, "copy", copy)


COMMAND = Command(
    name="copy",
    aliases=("cp",),
    usage="<src-path> -|<local-path>",
    summary="Copy files from the node",
    details="Copies a file or folder of the node with all below it into a local folder, or writes it "
    "as a gzip'd tar archive to the output when the local path is -.",
    flags=CLIENT_FLAGS,
    minimum=2,
    maximum=2,
    run=run_copy,
    complete=complete_path,
)
