"""Clients that write and read keys of etcd all the time, through every member, and record what they saw."""

import math
import random
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from tests.harness.cluster import Cluster
from tests.harness.etcd import Keys, open_keys
from tests.harness.history import History, Operation

from talos.api.etcd import rpc_pb2 as pb
from talos.provision.cluster import NodeInfo

KEYS = tuple(f"register-{number}" for number in range(4))
"""Few, so that clients meet."""
CLIENTS_PER_MEMBER = 2
TIMEOUT = 3.0
"""Seconds of one call; what takes longer has an unknown outcome."""
CALL_INTERVALS = (0.01, 0.08)
"""Seconds between two calls of a client, at least and at most: the machine has other work, too."""


@dataclass(slots=True)
class Observations:
    """What the clients saw."""

    history: History = field(default_factory=History)
    clusters: set[int] = field(default_factory=set[int])
    """The ids of the clusters that answered: two would be two clusters."""
    revisions: dict[int, str] = field(default_factory=dict[int, str])
    """The write that was acknowledged with each revision of the cluster."""
    problems: list[str] = field(default_factory=list[str])
    last_write: float = 0.0
    """When the latest acknowledged write ended, as time.monotonic."""
    longest_gap: float = 0.0
    """The longest time without an acknowledged write, in seconds."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note_header(self, header: pb.ResponseHeader) -> None:
        """An answer's header."""
        with self._lock:
            self.clusters.add(header.cluster_id)

    def note_write(self, header: pb.ResponseHeader, text: str) -> None:
        """An acknowledged write: each has a revision of its own, or there are two histories."""
        with self._lock:
            other = self.revisions.setdefault(header.revision, text)
            if other != text:
                self.problems.append(f"revision {header.revision} was given twice: {other}; {text}")
            now = time.monotonic()
            if self.last_write:
                self.longest_gap = max(self.longest_gap, now - self.last_write)
            self.last_write = now


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


def _run(client: Client, chance: random.Random, stopping: threading.Event) -> None:
    number = 0
    while not stopping.wait(chance.uniform(*CALL_INTERVALS)):
        key = chance.choice(KEYS)
        if chance.random() < 0.5:
            number += 1
            client.write(key, f"{client.name}.{number}")
        else:
            client.read(key)


@contextmanager
def running_workload(cluster: Cluster, members: Sequence[NodeInfo], seed: int) -> Generator[Observations]:
    """Clients of every member, for as long as the context is open."""
    seen, stopping = Observations(), threading.Event()
    threads: list[threading.Thread] = []
    with ExitStack() as stack:
        for node in members:
            for number in range(CLIENTS_PER_MEMBER):
                name = f"{node.name.rpartition('-')[2]}.{number}"
                client = Client(name, stack.enter_context(open_keys(cluster, node, timeout=TIMEOUT)), seen)
                arguments = (client, random.Random(f"{seed}/{name}"), stopping)
                threads.append(threading.Thread(target=_run, args=arguments, name=name))
        for thread in threads:
            thread.start()
        try:
            yield seen
        finally:
            stopping.set()
            for thread in threads:
                thread.join()


def read_everywhere(cluster: Cluster, members: Sequence[NodeInfo], seen: Observations) -> None:
    """Read every key through every member; AssertionError when one doesn't answer."""
    for node in members:
        with open_keys(cluster, node, timeout=TIMEOUT) as keys:
            client = Client(f"last.{node.name.rpartition('-')[2]}", keys, seen)
            for key in KEYS:
                assert client.read(key), f"{node.name} does not answer a read of {key}"
