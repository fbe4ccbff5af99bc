"""How much memory resources take, by their owner, and the histories of their changes together."""

from collections import defaultdict
from typing import Protocol

from google.protobuf.message import Message

from talos.resource.resource import Resource

OVERHEAD = 1024
"""Bytes that a resource takes beside its contents: objects of Python, entries in dictionaries."""
MAX_HISTORY = 32 * 1024 * 1024
"""Bytes of all histories at most."""


def measure(resource: Resource[Message]) -> int:
    """About as many bytes as a resource takes."""
    metadata = resource.metadata
    size = OVERHEAD + len(metadata.id) + resource.spec.ByteSize()
    for pairs in (metadata.labels, metadata.annotations):
        size += sum(len(key) + len(value) for key, value in pairs.items())
    return size + sum(map(len, metadata.finalizers))


class Shrinkable(Protocol):
    """A history, as its share of the memory is taken away."""

    size: int

    def drop_oldest(self) -> bool:
        """Drop the oldest event; False when only one is left."""
        ...


class Usage:
    """What the resources of a State and their histories take, in bytes as :func:`measure` has them."""

    def __init__(self, max_history: int = MAX_HISTORY) -> None:
        self._owners: defaultdict[str, int] = defaultdict(int)
        self._histories: list[Shrinkable] = []
        self._history = 0
        self._max_history = max_history

    def of(self, owner: str) -> int:
        """What the resources of an owner take."""
        return self._owners.get(owner, 0)

    def count(self, owner: str, change: int) -> None:
        """Note that an owner's resources take more or less than before."""
        self._owners[owner] += change

    def add_history(self, history: Shrinkable) -> None:
        """Include a history."""
        self._histories.append(history)

    def count_history(self, change: int) -> None:
        """Note that a history takes more or less; beyond the limit the longest one is shortened."""
        self._history += change
        if self._history > self._max_history:
            max(self._histories, key=lambda history: history.size).drop_oldest()
