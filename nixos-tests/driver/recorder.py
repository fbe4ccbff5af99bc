"""A disk that the test serves to QEMU: it records every write, and lets writes fail.

QEMU is its NBD client (https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md): fixed newstyle,
simple replies, one connection at a time. What a machine wrote is in the file at once, as in a disk's cache;
which of it a power cut leaves is chosen afterwards, from the record.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from driver.disks import copy_sparse

SECTOR = 512
_GREETING = struct.pack(">QQH", 0x4E42444D41474943, 0x49484156454F5054, 1 | 2)
"""NBDMAGIC, IHAVEOPT, and that this server is of the fixed newstyle and sends no zeroes after EXPORT_NAME."""
_OPTION = struct.Struct(">QII")
_OPTION_REPLY = struct.Struct(">QIII")
_OPTION_MAGIC = 0x0003E889045565A9
_GO, _INFO, _ABORT = 7, 6, 2
_ACK, _IS_INFO, _UNSUPPORTED = 1, 3, (1 << 31) | 1
_EXPORT = struct.Struct(">HQH")
_FLAGS = 1 | 4 | 64
"""That there are flags, FLUSH and WRITE_ZEROES. Without FUA a client flushes instead."""
_REQUEST = struct.Struct(">IHHQQI")
_REPLY = struct.Struct(">IIQ")
_REPLY_MAGIC = 0x67446698
_READ, _WRITE, _DISCONNECT, _FLUSH, _ZEROES = 0, 1, 2, 3, 6
_MAX_OPTION = 4096
"""Bytes of an option; QEMU's have some tens."""
EIO = 5
LOST = -1
"""Instead of an error: the write seems to be done, and is not."""

type Fault = Callable[[int, int], int]
"""From the place and length of a write, in bytes, to the error that it ends with; 0 for none."""


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes that a machine wrote. ``place`` is where the record has them; -1 when all of them are zero."""

    offset: int
    length: int
    place: int


class RecordedDisk:
    """A disk in a sparse file. ``writes`` has a None for every flush, ``times`` when each of them came."""

    def __init__(self, path: Path, size: int) -> None:
        """Make the file, unless it is there, and serve it on a socket beside it."""
        self.path, self.size = path, size
        self.socket = path.with_suffix(".nbd")
        self.writes: list[Write | None] = []
        self.times: list[float] = []
        self.fault: Fault | None = None
        self.failed = 0
        """Writes that ended with an error, or were lost."""
        if not path.exists():
            with path.open("wb") as file:
                file.truncate(size)
        self._file = path.open("r+b", buffering=0)
        self._record = path.with_suffix(".record").open("w+b", buffering=0)
        self._recording = False
        self._zeros = bytes(1 << 20)
        self.socket.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.socket))
        self._listener.listen(1)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def record(self) -> None:
        """Begin a new record."""
        self.writes, self.times, self._recording = [], [], True
        self._record.seek(0)
        self._record.truncate()

    def stop(self) -> None:
        """End the record."""
        self._recording = False

    @contextmanager
    def fail(self, fault: Fault) -> Generator[None]:
        """Let writes end with errors for as long as the context is open."""
        self.fault, self.failed = fault, 0
        try:
            yield
        finally:
            self.fault = None

    def read_record(self, write: Write) -> bytes:
        """The bytes of a write."""
        if write.place < 0:
            return bytes(write.length)
        with self.path.with_suffix(".record").open("rb") as file:
            file.seek(write.place)
            return file.read(write.length)

    def replace(self, image: Path) -> None:
        """The disk becomes a copy of another; the machine is off."""
        copy_sparse(image, self.path.with_suffix(".copy"))
        self._file.close()
        self.path.with_suffix(".copy").replace(self.path)
        self._file = self.path.open("r+b", buffering=0)

    def close(self) -> None:
        """Stop serving."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # which ends the thread's wait
        self._listener.close()
        self._thread.join(5)
        self._file.close()
        self._record.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, suppress(OSError, EOFError):
                    if self._negotiate(connection):
                        self._answer(connection)

    def _negotiate(self, connection: socket.socket) -> bool:
        connection.sendall(_GREETING)
        _receive(connection, 4)
        while True:
            _, option, length = _OPTION.unpack(_receive(connection, _OPTION.size))
            if length > _MAX_OPTION:
                return False
            _receive(connection, length)
            if option == _ABORT:
                return False
            if option in (_GO, _INFO):
                export = _EXPORT.pack(0, self.size, _FLAGS)
                _reply_option(connection, option, _IS_INFO, export)
                _reply_option(connection, option, _ACK)
                if option == _GO:
                    return True
            else:
                _reply_option(connection, option, _UNSUPPORTED)

    def _answer(self, connection: socket.socket) -> None:
        while True:
            _, _, kind, cookie, offset, length = _REQUEST.unpack(_receive(connection, _REQUEST.size))
            error, data = 0, b""
            if kind == _DISCONNECT:
                return
            if kind == _READ:
                self._file.seek(offset)
                data = self._file.read(length)
                data += bytes(length - len(data))
            elif kind == _WRITE:
                error = self._write(offset, length, _receive(connection, length))
            elif kind == _ZEROES:
                error = self._write(offset, length, None)
            elif kind == _FLUSH and self._recording:
                self._note(None)
            connection.sendall(_REPLY.pack(_REPLY_MAGIC, error, cookie) + data)

    def _note(self, entry: Write | None) -> None:
        self.writes.append(entry)
        self.times.append(time.monotonic())

    def _write(self, offset: int, length: int, data: bytes | None) -> int:
        if self.fault is not None and (error := self.fault(offset, length)):
            self.failed += 1
            return max(error, 0)
        if self._recording:
            place = -1 if data is None else self._record.tell()
            if data is not None:
                self._record.write(data)
            self._note(Write(offset, length, place))
        self._file.seek(offset)
        if data is not None:
            self._file.write(data)
            return 0
        for start in range(0, length, len(self._zeros)):
            self._file.write(self._zeros[: length - start])
        return 0


def _receive(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        piece = connection.recv(length - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _reply_option(connection: socket.socket, option: int, kind: int, data: bytes = b"") -> None:
    connection.sendall(_OPTION_REPLY.pack(_OPTION_MAGIC, option, kind, len(data)) + data)
