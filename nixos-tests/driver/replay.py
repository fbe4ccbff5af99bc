"""Every disk that a power cut may leave, made from a record of writes.

A disk may keep, lose or tear at a sector what came after the last flush, each write on its own; what came
before it is there. So one record has many more states than a machine could be cut at.
"""

import os
from bisect import bisect_right
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
        cuts.append(_make_cut(record, start, random.randint(start, end), random))
    return sorted(cuts, key=lambda cut: cut.flushed)


def choose_cuts_of_all(disks: Sequence[RecordedDisk], count: int, seed: int) -> list[tuple[Cut, ...]]:
    """The same of disks that lose their power at once: each time one cut for every disk, all in order."""
    random, moments = Random(seed), list[float]()
    spans = [(disk, *span) for disk in disks for span in _find_spans(disk.writes) if span[1] > span[0]]
    for _ in range(count):
        disk, start, end = random.choice(spans)
        moments.append(disk.times[random.randrange(start, end)])
    return [tuple(_cut_at(disk, moment, random) for disk in disks) for moment in sorted(moments)]


def _cut_at(disk: RecordedDisk, moment: float, random: Random) -> Cut:
    end = bisect_right(disk.times, moment)
    start = max((first for first, _ in _find_spans(disk.writes) if first <= end), default=0)
    return _make_cut(disk.writes, start, end, random)


def _make_cut(record: Sequence[Write | None], start: int, end: int, random: Random) -> Cut:
    """What is left of the entries from a flush on."""
    kept: list[int] = []
    for entry in record[start:end]:
        assert entry is not None
        kept.append(random.choice((0, entry.length, random.randrange(0, entry.length, SECTOR))))
    return Cut(flushed=start, kept=tuple(kept))


def list_torn_writes(record: Sequence[Write | None], start: int, end: int) -> Iterator[Cut]:
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
