"""Where snapshots go, what they are called there, and which ones stay."""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

NAME = re.compile(r"etcd-\d{8}T\d{6}Z\.snapshot\.age", re.ASCII)


class Upload(Protocol):
    """One snapshot on its way. Each method raises UserError."""

    def write(self, data: bytes, /) -> object:
        """The next piece."""
        ...

    def commit(self) -> None:
        """All has been written: from now on it is there under its name, and safe."""
        ...

    def abort(self) -> None:
        """Remove what has been written."""
        ...


class Destination(Protocol):
    """A place outside of the cluster. Each method blocks, and raises UserError."""

    def begin(self, name: str) -> Upload:
        """Begin with a snapshot."""
        ...

    def find_names(self) -> Iterable[str]:
        """What is there; of very many the oldest ones."""
        ...

    def remove(self, name: str) -> None:
        """Remove a snapshot."""
        ...


def make_name(now: datetime) -> str:
    """The name of a snapshot, which sorts by time."""
    return f"etcd-{now:%Y%m%dT%H%M%SZ}.snapshot.age"


def remove_old(destination: Destination, keep: int) -> None:
    """Remove all snapshots but the newest ``keep``, or none when that is 0."""
    if keep:
        for name in sorted(filter(NAME.fullmatch, destination.find_names()))[:-keep]:
            destination.remove(name)
