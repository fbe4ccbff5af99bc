"""Every disk that a power cut may leave, made from a record of writes.

A disk may keep, lose or tear at a sector what came after the last flush, each write on its own; what came before
it is there. So one record has many more states than a machine could be cut at.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from driver.process import run
from driver.recorder import SECTOR, RecordedDisk, Write


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A power cut: after ``count`` entries of the record, with ``seed`` for what becomes of those not flushed."""

    count: int
    seed: int


def choose_cuts(record: Sequence[Write | None], count: int, seed: int) -> list[Cut]:
    """Cuts in order: each is in a span between two flushes, all of which are equally likely."""
    random = Random(seed)
    spans: list[tuple[int, int]] = []
    start = 0
    for place, entry in enumerate(record):
        if entry is None:
            if place > start:
                spans.append((start, place))
            start = place + 1
    chosen = [random.choice(spans) for _ in range(count)]
    cuts = [Cut(count=random.randint(first + 1, end), seed=random.getrandbits(32)) for first, end in chosen]
    return sorted(cuts, key=lambda cut: cut.count)


def copy_sparse(path: Path, copy: Path) -> None:
    """Copy a disk; holes stay holes."""
    run(["cp", "--sparse=always", str(path), str(copy)], seconds=600)


class Replay:
    """A disk that goes through its record."""

    def __init__(self, base: Path, disk: RecordedDisk, image: Path) -> None:
        """``base`` is the disk as it was when the record began; ``image`` the file that goes through the states."""
        copy_sparse(base, image)
        self.image, self._disk = image, disk
        self._done = 0

    @contextmanager
    def cut(self, cut: Cut) -> Iterator[str]:
        """The image is what this cut leaves, for as long as the context is open; what happened to the last writes.

        Cuts come in the order of their counts.
        """
        record = self._disk.writes[: cut.count]
        flushed = max((place for place, entry in enumerate(record) if entry is None), default=0)
        assert flushed >= self._done, "cuts come in order"
        with self.image.open("r+b", buffering=0) as file:
            for entry in record[self._done : flushed]:
                if entry is not None:
                    _write(file.fileno(), entry.offset, self._disk.read_record(entry))
            self._done = flushed
            random, undo, notes = Random(cut.seed), list[tuple[int, bytes]](), list[str]()
            for entry in record[flushed:]:
                if entry is None:
                    continue
                data = self._disk.read_record(entry)
                kept = random.choice((0, len(data), random.randrange(0, len(data), SECTOR)))
                notes.append(f"{kept} of {len(data)} bytes at {entry.offset}")
                file.seek(entry.offset)
                undo.append((entry.offset, file.read(kept)))
                _write(file.fileno(), entry.offset, data[:kept])
            try:
                yield f"after {cut.count} entries ({', '.join(notes) or 'all flushed'})"
            finally:
                for offset, data in reversed(undo):
                    _write(file.fileno(), offset, data)

    def copy(self, path: Path) -> None:
        """Copy the state."""
        shutil.copyfile(self.image, path)


def _write(descriptor: int, offset: int, data: bytes) -> None:
    import os

    os.pwrite(descriptor, data, offset)
