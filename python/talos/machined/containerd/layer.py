"""The program that containerd starts for each layer of an image: it unpacks it, confined and bounded.

It reads the layer and writes the archive in it, with no right but to do that. containerd's side of it:
https://github.com/containerd/containerd/blob/release/2.4/docs/stream_processors.md
"""

import os
import sys
import time
import zlib
from collections.abc import Iterable, Iterator

from talos.machined.containerd.bounds import MIN_UNPACK_RATE, RESERVE, UNPACK_TIMEOUT
from talos.process.confined import confine_program
from talos.system.zstd import ZstdError, unpack_zstd_stream

CHUNK = 128 * 1024
CHECK_BYTES = 4 * 1024 * 1024
"""Bytes written between two checks of the disk and the clock."""
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_ANY_GZIP = 16 + zlib.MAX_WBITS


class LayerError(ValueError):
    """The layer can't be unpacked, or not within its bounds."""


ERRORS = (LayerError, ZstdError, zlib.error)
"""What is wrong with a layer."""


def main() -> None:
    """Unpack stdin to stdout, onto the disk of the folder that the one argument names."""
    disk = os.open(sys.argv[1], os.O_PATH | os.O_DIRECTORY)
    confine_program("unpack-layer")
    try:
        copy_layer(sys.stdin.fileno(), sys.stdout.fileno(), disk)
    except (*ERRORS, MemoryError) as error:
        sys.exit(f"unpack-layer: {error or 'not enough memory'}")
    except BrokenPipeError:
        sys.exit("unpack-layer: containerd has stopped reading")


def copy_layer(source: int, target: int, disk: int) -> None:
    """Copy the archive in a layer from one descriptor to the other; ERRORS, OSError.

    It stops when the disk of the descriptor ``disk`` has no room left.
    """
    reader = Reader(source)
    deadline = time.monotonic() + UNPACK_TIMEOUT
    written = next_check = 0
    for piece in unpack_layer(reader):
        left = memoryview(piece)
        while left:
            left = left[os.write(target, left) :]
        written += len(piece)
        if written < next_check:
            continue
        next_check = written + CHECK_BYTES
        room = os.fstatvfs(disk)
        if room.f_bavail * room.f_frsize < RESERVE:
            raise LayerError(f"{reader.count} bytes take more when unpacked than the disk has room for")
        if time.monotonic() > deadline + reader.count / MIN_UNPACK_RATE:
            raise LayerError(f"{reader.count} bytes of it took more than {UNPACK_TIMEOUT:.0f} s")


class Reader:
    """The chunks of a descriptor, counted."""

    def __init__(self, source: int) -> None:
        self._source = source
        self.count = 0
        """Bytes so far."""

    def __iter__(self) -> Iterator[bytes]:
        """Read to the end. OSError."""
        while chunk := os.read(self._source, CHUNK):
            self.count += len(chunk)
            yield chunk


def unpack_layer(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Unpack by what the data are, whatever their media type is; ERRORS."""
    pieces = iter(chunks)
    head = b""
    for chunk in pieces:
        head += chunk
        if len(head) >= len(_ZSTD):
            break
    whole = _prepend(head, pieces)
    if head.startswith(_GZIP):
        return _unpack_gzip(whole)
    return unpack_zstd_stream(whole) if head.startswith(_ZSTD) else whole


def _prepend(head: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from pieces


def _unpack_gzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """One member after another, as gzip itself does."""
    inflate = zlib.decompressobj(_ANY_GZIP)
    for chunk in chunks:
        data = chunk
        while data:
            if inflate.eof:
                inflate = zlib.decompressobj(_ANY_GZIP)
            piece = inflate.decompress(data, CHUNK)
            yield piece
            data = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            # Without input it may still have some of a full piece.
            while not data and len(piece) == CHUNK and not inflate.eof:
                piece = inflate.decompress(b"", CHUNK)
                yield piece
                data = inflate.unused_data if inflate.eof else b""
    if not inflate.eof:
        raise LayerError("the end is missing")
