"""``talosctl etcd snapshot`` and ``decrypt-snapshot``: a file takes its name when it is a whole snapshot."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from talos.api.common.common_pb2 import Data
from talos.api.machine import machine_pb2 as machine
from talos.client.session import Session
from talos.client.snapshot import SnapshotHash
from talos.system.errors import UserError
from talos.talosctl.cli.command import Invocation
from talos.talosctl.client.command import raise_error, run_one
from talos.talosctl.output import age, console
from talos.talosctl.output.transfer import showing_transfer

METHOD = "/machine.MachineService/EtcdSnapshot"


class SnapshotFile:
    """A snapshot that is being written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.hash = file, SnapshotHash()

    def write(self, piece: bytes) -> None:
        """The next piece; OSError."""
        self._file.write(piece)
        self.hash.update(piece)


@contextmanager
def open_snapshot(path: Path, *, where: str, hint: str) -> Generator[SnapshotFile]:
    """A file that replaces ``path`` at the end, and only its owner reads. UserError when it is not whole."""
    partial = path.with_name(path.name + ".part")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            snapshot = SnapshotFile(file)
            yield snapshot
        if not snapshot.hash.is_whole:
            raise UserError("the snapshot is not whole", where=where, hint=hint)
        partial.rename(path)
    except OSError as error:
        raise UserError(error.strerror or str(error), where=str(path)) from error
    finally:
        partial.unlink(missing_ok=True)


def run_snapshot(invocation: Invocation) -> int:
    """Write a snapshot into a file; an unfinished one does not take its name."""
    path = Path(invocation.args[0])

    async def call(session: Session, node: str) -> None:
        request = machine.EtcdSnapshotRequest()
        with showing_transfer(node) as note:
            async with session.stream(node, METHOD, request, Data) as chunks:
                with open_snapshot(path, where=node, hint="try again") as snapshot:
                    async for chunk in chunks:
                        raise_error(chunk)
                        snapshot.write(chunk.bytes)
                        note(len(chunk.bytes))
        console.write_line(f'{node}: etcd snapshot saved to "{path}" ({snapshot.hash.size} bytes)')

    return run_one(invocation, "etcd snapshot", call)


def run_decrypt_snapshot(invocation: Invocation) -> int:
    """Write what an encrypted snapshot holds into a file."""
    source, path = map(Path, invocation.args)
    identities = Path(invocation.flags.text("identity"))
    try:
        encrypted = source.open("rb")
    except OSError as error:
        raise UserError(error.strerror or str(error), where=str(source)) from None
    with encrypted, open_snapshot(path, where=str(source), hint="take an older one") as snapshot:
        age.decrypt(encrypted, snapshot, identities, where=str(source))
    console.note(f'etcd snapshot saved to "{path}" ({snapshot.hash.size} bytes)')
    return 0
