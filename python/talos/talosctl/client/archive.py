"""Folders of a node, received as archives."""

import tarfile
import tempfile
import zlib
from pathlib import Path
from typing import IO

from talos.api.common.common_pb2 import Data
from talos.api.machine.machine_pb2 import CopyRequest
from talos.api.rpc import RpcError
from talos.client.session import Session
from talos.system.errors import UserError
from talos.talosctl.client.command import raise_error
from talos.talosctl.output import console
from talos.talosctl.output.room import Room, check_room
from talos.talosctl.output.transfer import showing_transfer

UNREADABLE = (
    tarfile.TarError,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    LookupError,
    RecursionError,
    MemoryError,
)
"""What tarfile raises for archives that are damaged, or made to harm: headers that announce an exabyte, names
of names a thousand times, links to nothing, numbers that are none."""


async def receive_archive(
    session: Session, node: str, path: str, archive: IO[bytes] | None
) -> RpcError | None:
    """Write a folder as a gzip'd tar to a temporary file or the output; the error is what the node left out.

    UserError when the disk has no room for it.
    """
    left_out: RpcError | None = None
    room = Room(archive.fileno(), where=tempfile.gettempdir()) if archive else None
    request = CopyRequest(root_path=path)
    with showing_transfer(node) as note:
        async with session.stream(node, "/machine.MachineService/Copy", request, Data) as chunks:
            async for chunk in chunks:
                try:
                    raise_error(chunk)
                except RpcError as error:
                    left_out = error
                    continue
                if archive is None or room is None:
                    console.write_bytes(chunk.bytes)
                else:
                    room.use(len(chunk.bytes))
                    archive.write(chunk.bytes)
                note(len(chunk.bytes))
    return left_out


def unpack(archive: IO[bytes], folder: Path) -> None:
    """Unpack a gzip'd tar; nothing in it may reach outside of the folder, or take all of the disk."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def choose(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        check_room(folder, member.size, where=str(folder))
        return tarfile.data_filter(member, path)

    try:
        with tarfile.open(fileobj=archive, mode="r:gz") as tar:
            tar.extractall(folder, filter=choose)  # noqa: S202 - by the filter for data, too
    except tarfile.FilterError as error:
        raise UserError(
            f"the node's archive reaches outside of the folder: {error}", where=str(folder)
        ) from error
    except UNREADABLE as error:
        reason = str(error) or type(error).__name__
        raise UserError(f"can't unpack the node's archive: {reason}", where=str(folder)) from error
