"""Every disk that a power cut may leave, made from a record of writes.

A disk may keep, lose or tear at a sector what came after the last flush, each write on its own; what came
before it is there. So one record has many more states than a machine could be cut at.
"""

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from driver.disks import copy_sparse
from driver.recorder import SECTOR, RecordedDisk, Write

TORN = 64 << 10
"""Bytes of the largest write that is torn at every sector; what a filesystem keeps of files comes in such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A power cut: entries of the record that are there, and for each one after them the bytes that are."""

    flushed: int
    kept: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Entries of the record until the cut."""
        return self.flushed + len(self.kept)


def choose_cuts(record: Sequence[Write | None], count: int, seed: int) -> list[Cut]:
    """Cuts in order: each is in a span between two flushes, all of which are equally likely."""
    random, cuts = Random(seed), list[Cut]()
    spans = [(start, end) for start, end in _find_spans(record) if end > start]
    for _ in range(count):
        start, end = random.choice(spans)
        kept: list[int] = []
        for entry in record[start : random.randint(start, end)]:
            assert entry is not None
            kept.append(random.choice((0, entry.length, random.randrange(0, entry.length, SECTOR))))
        cuts.append(Cut(flushed=start, kept=tuple(kept)))
    return sorted(cuts, key=lambda cut: cut.flushed)


def list_tears(record: Sequence[Write | None], start: int, end: int) -> Iterator[Cut]:
    """Every small write to a part of the disk, torn at each sector, with and without those beside it."""
    for first, last in _find_spans(record):
        entries = [entry for entry in record[first:last] if entry is not None]
        for place, entry in enumerate(entries):
            if not (start <= entry.offset < end and entry.length <= TORN):
                continue
            for others in (False, True) if len(entries) > 1 else (False,):
                kept = [other.length if others else 0 for other in entries]
                for torn in range(0, entry.length, SECTOR):
                    kept[place] = torn
                    yield Cut(flushed=first, kept=tuple(kept))


def _find_spans(record: Sequence[Write | None]) -> list[tuple[int, int]]:
    """First entry after a flush and the next flush, for all flushes."""
    flushes = [place for place, entry in enumerate(record) if entry is None]
    return list(zip([0, *(place + 1 for place in flushes)], [*flushes, len(record)], strict=True))


class Replay:
    """A disk that goes through its record. Cuts come in order."""

    def __init__(self, base: Path, disk: RecordedDisk, image: Path) -> None:
        """``base`` is the disk when the record began, ``image`` the file that goes through states."""
        copy_sparse(base, image)
        self.image, self._disk = image, disk
        self._done = 0

    @contextmanager
    def cut(self, cut: Cut) -> Generator[str]:
        """The image is what this cut leaves, as long as the context is open; a text that describes it."""
        assert cut.flushed >= self._done, "cuts come in order"
        with self.image.open("r+b", buffering=0) as file:
            for entry in self._disk.writes[self._done : cut.flushed]:
                if entry is not None:
                    os.pwrite(file.fileno(), self._disk.read_record(entry), entry.offset)
            self._done = cut.flushed
            undo, notes = list[tuple[int, bytes]](), list[str]()
            for place, kept in enumerate(cut.kept, cut.flushed):
                entry = self._disk.writes[place]
                assert entry is not None
                notes.append(f"{kept} of {entry.length} bytes at {entry.offset}")
                undo.append((entry.offset, os.pread(file.fileno(), kept, entry.offset)))
                os.pwrite(file.fileno(), self._disk.read_record(entry)[:kept], entry.offset)
            try:
                yield f"after entry {cut.flushed}, {', '.join(notes) or 'with nothing on its way'}"
            finally:
                for offset, data in reversed(undo):
                    os.pwrite(file.fileno(), data, offset)
