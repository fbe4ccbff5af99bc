"""The program that unpacks layers: what it makes of them, and where it stops."""

import gzip
import itertools
import os
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.system.zstd import pack

from talos.machined.containerd import layer
from talos.machined.containerd.layer import copy_layer

DATA = b"".join(number.to_bytes(4, "big") for number in range(300_000))


@contextmanager
def fed(data: bytes) -> Generator[int]:
    """A pipe with the data in it."""
    source, end = os.pipe()

    def feed() -> None:
        with open(end, "wb") as file:  # noqa: PTH123 - a descriptor
            try:
                file.write(data)
            except BrokenPipeError:
                file.raw.close()

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield source
    finally:
        os.close(source)
        thread.join()


def unpack(data: bytes, folder: Path) -> bytes:
    disk = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        with fed(data) as source, (folder / "out").open("wb") as target:
            copy_layer(source, target.fileno(), disk)
    finally:
        os.close(disk)
    return (folder / "out").read_bytes()


@pytest.mark.parametrize(
    ("packed", "unpacked"),
    [
        (gzip.compress(DATA), DATA),
        (gzip.compress(DATA) + gzip.compress(b"more"), DATA + b"more"),
        (gzip.compress(bytes(5_000_000)), bytes(5_000_000)),
        (pack(DATA), DATA),
        (pack(bytes(1 << 20)), bytes(1 << 20)),
        (pack(DATA) + pack(b"more"), DATA + b"more"),
        (DATA, DATA),
        (b"\x1f", b"\x1f"),
        (b"", b""),
    ],
)
def test_a_layer_is_unpacked_by_what_it_is(packed: bytes, unpacked: bytes, tmp_path: Path) -> None:
    assert unpack(packed, tmp_path) == unpacked


@pytest.mark.parametrize("packed", [gzip.compress(DATA), pack(DATA)])
def test_a_damaged_layer_is_refused(packed: bytes, tmp_path: Path) -> None:
    for damaged in (packed[:-3], packed + b"rest"):
        with pytest.raises(layer.ERRORS):
            unpack(damaged, tmp_path)


@pytest.mark.parametrize(
    ("bound", "value", "message"),
    [("RESERVE", 1 << 62, "than the disk has room for"), ("UNPACK_TIMEOUT", -1e9, "took more than")],
)
def test_it_stops_at_its_bounds(
    bound: str, value: float, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer, bound, value)
    with pytest.raises(layer.LayerError, match=message):
        unpack(gzip.compress(bytes(8 << 20)), tmp_path)
    assert (tmp_path / "out").stat().st_size <= layer.CHECK_BYTES


@pytest.mark.parametrize("sizes", [(1, 2, 3), (4,), (100_000,)])
def test_where_reads_end_makes_no_difference(sizes: Sequence[int]) -> None:
    packed = gzip.compress(DATA[:50_000])
    starts = [0, *sizes, len(packed)]
    chunks = [packed[start:end] for start, end in itertools.pairwise(starts)]
    assert b"".join(layer.unpack_layer(chunks)) == DATA[:50_000]
