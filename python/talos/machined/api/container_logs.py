"""Logs of pods' containers: the files that containerd writes, as they are."""

import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import BinaryIO

import trio

from talos.api.common import common_pb2
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Code, RpcError, Send
from talos.machined.api.containers import find_container
from talos.machined.api.pump import in_thread
from talos.machined.node.ports.node import Node

DIRECTORY = "/var/log/pods"
CHUNK = 64 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FOLLOW_INTERVAL = 0.5
"""Seconds between two checks of a file that is followed; it may be replaced by the next one at any time."""


async def send_container_log(node: Node, request: pb.LogsRequest, send: Send) -> None:
    """Send the newest log file of a container, and with ``follow`` what is added to it and its successors."""
    row = await find_container(node, request.namespace, request.id)
    if row is None:
        raise RpcError(Code.UNKNOWN, f'container "{request.id}" not found')
    if not row.log or not PurePosixPath(row.log).parent.is_relative_to(DIRECTORY) or ".." in row.log:
        raise RpcError(
            Code.UNKNOWN, f'container "{request.id}" has no log: it is a sandbox, or has not started'
        )
    reader = LogReader(row.log)
    try:
        await in_thread(reader.open, request.tail_lines)
        while True:
            while data := await in_thread(reader.read):
                await send(common_pb2.Data(bytes=data))
            if not request.follow:
                return
            if not await in_thread(reader.open_next):
                await trio.sleep(FOLLOW_INTERVAL)
    except OSError as error:
        raise RpcError(Code.UNKNOWN, f"{row.log}: {error.strerror}") from None
    finally:
        reader.close()


class LogReader:
    """Reads a file below ``directory``, and the one that takes its place. The calls block.

    No link is followed on the way there: a pod that collects logs may be allowed to write among them.
    """

    def __init__(self, path: str, directory: str = DIRECTORY) -> None:
        self._path = path
        self._directory = directory
        self._file: BinaryIO | None = None

    def open(self, tail_lines: int) -> None:
        """Open the file at its last lines; negative: at its beginning. OSError."""
        self._file = self._open()
        if tail_lines >= 0:
            self._file.seek(find_tail(self._file, tail_lines))

    def read(self) -> bytes:
        """What comes next; nothing at the end."""
        return self._file.read(CHUNK) if self._file is not None else b""

    def open_next(self) -> bool:
        """Open the file that has taken the place of this one, if there is another."""
        if self._file is None:
            return False
        try:
            found = os.stat(self._path, follow_symlinks=False)  # noqa: PTH116 - Path follows
        except OSError:
            return False
        here = os.fstat(self._file.fileno())
        if (found.st_dev, found.st_ino) == (here.st_dev, here.st_ino):
            return False
        following = self._open()
        self._file.close()
        self._file = following
        return True

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _open(self) -> BinaryIO:
        *folders, name = PurePosixPath(self._path).relative_to(self._directory).parts
        place = os.open(self._directory, _FOLDER)
        try:
            for folder in folders:
                outer, place = place, os.open(folder, _FOLDER, dir_fd=place)
                os.close(outer)
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
        finally:
            os.close(place)
        return os.fdopen(fd, "rb", buffering=0)


def find_tail(file: BinaryIO, lines: int) -> int:
    """Where so many last lines begin."""
    end = file.seek(0, os.SEEK_END)
    position, missing = end, lines
    for start, block in _read_backwards(file, end):
        if position == end and block.endswith(b"\n"):
            missing += 1  # the end of the last line separates nothing
        while missing > 0 and (found := block.rfind(b"\n")) >= 0:
            missing -= 1
            position = start + found + 1
            block = block[:found]
        if missing == 0:
            return position
        position = start
    return 0 if lines else end


def _read_backwards(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
    while end > 0:
        start = max(0, end - CHUNK)
        file.seek(start)
        yield start, file.read(end - start)
        end = start
