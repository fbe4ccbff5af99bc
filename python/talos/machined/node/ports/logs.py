"""Events and logs, as the API sees them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from google.protobuf.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One entry of the event log. ``id`` is an xid, sortable by time; ``time`` in seconds.

    ``number`` counts the events of this boot from 1.
    """

    id: str
    number: int
    time: float
    actor_id: str
    payload: Message


class Events(Protocol):
    """The node's event log: a ring of the newest events, and their followers."""

    def make_id(self) -> str:
        """An event id for the present moment."""
        ...

    def publish(self, payload: Message, *, actor_id: str = "") -> Event:
        """Add an event."""
        ...

    def follow(
        self, *, tail: int = 0, after_id: str = "", seconds: float = 0.0, actor_id: str = ""
    ) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """New events without end, after the requested past ones.

        ``tail``: this many (negative: all that are kept); ``after_id``: those with a later id, whether
        or not that event is still kept; ``seconds``: those of the last seconds. Of several, the last
        named here counts. ``actor_id`` limits to one actor.
        A follower that falls a whole ring behind misses the oldest events.
        """
        ...


class UnknownLogError(Exception):
    """There is no log with this id."""


class Logs(Protocol):
    """The logs of the node's services."""

    def ids(self) -> Sequence[str]:
        """Every log there is, ordered."""
        ...

    def append(self, id: str, data: bytes) -> None:
        """Append whole lines to a log, which is created if necessary."""
        ...

    def read(
        self, id: str, *, follow: bool = False, tail_lines: int = -1
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """What a log holds, in chunks of whole lines; negative ``tail_lines``: all. UnknownLogError.

        With ``follow`` new lines are included as they are written.
        """
        ...


class KernelLog(Protocol):
    """The kernel's ring buffer."""

    def read(
        self, *, follow: bool = False, tail: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Messages, one formatted line each; with ``tail`` only those from now on."""
        ...
