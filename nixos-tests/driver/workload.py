"""Clients that write and read keys of etcd all the time, through every member, and record what they saw."""

import math
import random
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from driver.history import History, Operation, check_linearizability

KEYS = tuple(f"register-{number}" for number in range(4))
"""Few, so that clients meet."""


class Header(Protocol):
    """What etcd sends with every answer."""

    @property
    def cluster_id(self) -> int: ...

    @property
    def revision(self) -> int: ...


class Keys(Protocol):
    """Calls to one member; a failure is an AssertionError."""

    def put(self, key: str, value: str) -> Header:
        """Write a key; the quorum has acknowledged it."""
        ...

    def read(self, key: str) -> tuple[str, Header]:
        """A key's value as the quorum has it, empty when there is none."""
        ...


@dataclass(slots=True)
class Observations:
    """What the clients saw. ``clock`` is what pauses are counted by, in seconds."""

    clock: Callable[[], float] = time.monotonic
    history: History = field(default_factory=History)
    clusters: set[int] = field(default_factory=set[int])
    """The ids of the clusters that answered: two would be two clusters."""
    revisions: dict[int, str] = field(default_factory=dict[int, str])
    """The write that was acknowledged with each revision of the cluster."""
    problems: list[str] = field(default_factory=list[str])
    last_write: float = 0.0
    """When the latest acknowledged write ended."""
    longest_gap: float = 0.0
    """The longest time without an acknowledged write, in seconds."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note_header(self, header: Header) -> None:
        """An answer's header."""
        with self._lock:
            self.clusters.add(header.cluster_id)

    def note_write(self, header: Header, text: str) -> None:
        """An acknowledged write: each has a revision of its own, or there are two histories."""
        with self._lock:
            other = self.revisions.setdefault(header.revision, text)
            if other != text:
                self.problems.append(f"revision {header.revision} was given twice: {other}; {text}")
            now = self.clock()
            self.longest_gap = max(self.longest_gap, now - (self.last_write or now))
            self.last_write = now

    def note_end(self) -> None:
        """The time since the latest acknowledged write counts, too."""
        if self.last_write:
            self.longest_gap = max(self.longest_gap, self.clock() - self.last_write)

    def find_problems(self) -> list[str]:
        """What one etcd that loses no acknowledged write could not have answered."""
        found = [*self.problems, *check_linearizability(self.history.operations)]
        return found if len(self.clusters) == 1 else [*found, f"not one cluster: {self.clusters}"]

    def describe(self) -> str:
        """One line of figures."""
        return (
            f"{len(self.history.operations)} operations, {self.history.count_acknowledged()} acknowledged "
            f"writes, at most {self.longest_gap:.1f} s without one"
        )


@dataclass(frozen=True, slots=True)
class Client:
    """One thread's calls: each write has a value of its own."""

    name: str
    keys: Keys
    seen: Observations

    def write(self, key: str, value: str) -> bool:
        """Write a key; whether it was acknowledged."""
        begin, end = time.monotonic(), math.inf
        try:
            header = self.keys.put(key, value)
            end = time.monotonic()
        except AssertionError:
            pass
        else:
            self.seen.note_header(header)
            self.seen.note_write(header, f"{self.name} wrote {key}={value}")
        self._record(key, value, begin, end, is_write=True)
        return end < math.inf

    def read(self, key: str) -> bool:
        """Read a key; whether there was an answer."""
        begin = time.monotonic()
        try:
            value, header = self.keys.read(key)
        except AssertionError:
            return False
        self.seen.note_header(header)
        self._record(key, value, begin, time.monotonic(), is_write=False)
        return True

    def _record(self, key: str, value: str, begin: float, end: float, *, is_write: bool) -> None:
        self.seen.history.add(
            Operation(client=self.name, key=key, value=value, is_write=is_write, begin=begin, end=end)
        )


def _run(
    client: Client, chance: random.Random, stopping: threading.Event, intervals: tuple[float, float]
) -> None:
    number = 0
    while not stopping.wait(chance.uniform(*intervals)):
        key = chance.choice(KEYS)
        if chance.random() < 0.5:
            number += 1
            client.write(key, f"{client.name}.{number}")
        else:
            client.read(key)


@contextmanager
def running_clients(
    members: Mapping[str, Keys],
    seed: int,
    intervals: tuple[float, float],
    clock: Callable[[], float] = time.monotonic,
) -> Generator[Observations]:
    """A client for each name, for as long as the context is open.

    ``intervals`` are the seconds between two calls of a client, at least and at most.
    """
    seen, stopping = Observations(clock), threading.Event()
    threads = [
        threading.Thread(
            target=_run,
            args=(Client(name, keys, seen), random.Random(f"{seed}/{name}"), stopping, intervals),
            name=name,
        )
        for name, keys in members.items()
    ]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
        seen.note_end()


def read_at_all_members(members: Mapping[str, Keys], seen: Observations) -> None:
    """Read every key through every member; AssertionError when one doesn't answer."""
    for name, keys in members.items():
        client = Client(f"last.{name}", keys, seen)
        for key in KEYS:
            assert client.read(key), f"{name} does not answer a read of {key}"
