"""Folders of a node, received as archives."""

import tarfile
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
    """Write a folder as a gzip'd tar to a file, or to the output; the error is what the node left out."""
    left_out: RpcError | None = None
    request = CopyRequest(root_path=path)
    with showing_transfer(node) as note:
        async with session.stream(node, "/machine.MachineService/Copy", request, Data) as chunks:
            async for chunk in chunks:
                try:
                    raise_error(chunk)
                except RpcError as error:
                    left_out = error
                    continue
                if archive is None:
                    console.write_bytes(chunk.bytes)
                else:
                    archive.write(chunk.bytes)
                note(len(chunk.bytes))
    return left_out


def unpack(archive: IO[bytes], folder: Path) -> None:
    """Unpack a gzip'd tar; nothing in it may reach outside of the folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with tarfile.open(fileobj=archive, mode="r:gz") as tar:
            tar.extractall(folder, filter="data")
    except tarfile.FilterError as error:
        raise UserError(
            f"the node's archive reaches outside of the folder: {error}", where=str(folder)
        ) from error
    except UNREADABLE as error:
        reason = str(error) or type(error).__name__
        raise UserError(f"can't unpack the node's archive: {reason}", where=str(folder)) from error
