"""The kernel's network tables, each read once and then kept current from the kernel's notifications.

A dump of a table costs time in proportion to its length, and every controller reads the tables in
every round: with a dump each, the work for many links, addresses and routes would grow with the square of
their number. What a notification does not have makes the table stale, and it is dumped again when it is
read next.
"""

import errno
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import trio
from pyroute2.netlink.rtnl.marshal import MarshalRtnl

from talos.system.net.links import Topic
from talos.system.net.netlink import receive
from talos.system.wakeup import Wakeup

# <linux/netlink.h>
_SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP = 270, 1
_NLM_F_DUMP_INTR, _NLM_F_REPLACE, _NLM_F_APPEND = 0x10, 0x100, 0x800
_SO_RCVBUFFORCE = 33
BUFFER_BYTES = 4 << 20
"""Room for the notifications of some thousand changes; beyond it the tables are stale."""
MAX_LEARNED = 4096
"""Entries that come from other machines: any on a link can announce prefixes without an end, each of which is
a route of the kernel's. What is more is in the kernel only."""
MAX_MISSED = 4096
"""Notifications that are kept while a table is dumped; with more it is dumped again."""
MAX_DUMPS = 4
"""Dumps of a table in a row while it changes: one that is interrupted may lack entries."""
_BURST_DELAY = 0.01  # seconds
"""Changes come in bursts; this is how long the rest of one is waited for."""
_RECEIVE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Table[S]:
    """One table of the kernel.

    ``groups`` are the multicast groups of its notifications, of the types ``added`` and ``removed``.
    ``family``: the only address family whose messages count, if it is not None. ``place``: what a
    replacing entry replaces, where that is not its ``key``.
    """

    topic: Topic
    groups: tuple[int, ...]
    added: int
    removed: int
    parse: Callable[[Any], S]
    key: Callable[[S], Hashable]
    dump: Callable[[Callable[[Any], object]], Awaitable[None]]
    """Passes the message of each entry to a function."""
    place: Callable[[S], Hashable] | None = None
    family: int | None = None
    is_reported: Callable[[Any], bool] = lambda _: True
    """Whether a notification has all of its entry."""
    is_learned: Callable[[S], bool] = lambda _: False
    """Whether an entry is of others' making, such as a router's: only ``MAX_LEARNED`` of these are kept."""
    stales: Callable[[S, S | None], Topic] = lambda _, __: Topic(0)
    """Other tables in which a change from one entry to another, or none, has effects without notification."""


@dataclass(slots=True)
class _Copy:
    table: Table[Any]
    entries: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any])
    is_stale: bool = True
    is_known: bool = False
    """Whether it was ever dumped."""
    missed: list[Any] | None = None
    """Notifications that have come while the table is dumped."""
    learned: int = 0
    """How many entries are ``is_learned``."""

    def put(self, key: Hashable, state: Any) -> bool:
        """Keep an entry; False where there is no room for it."""
        old, is_learned = self.entries.get(key), self.table.is_learned(state)
        if old is None and is_learned and self.learned >= MAX_LEARNED:
            return False
        self.entries[key] = state
        self.learned += is_learned - (old is not None and self.table.is_learned(old))
        return True

    def pop(self, key: Hashable) -> Any:
        """Forget an entry; returns it, or None."""
        state = self.entries.pop(key, None)
        if state is not None:
            self.learned -= self.table.is_learned(state)
        return state


class Monitor:
    """Copies of tables, and who waits for changes of them."""

    def __init__(self, tables: Sequence[Table[Any]]) -> None:
        self._copies = {table.topic: _Copy(table) for table in tables}
        self._by_type = {
            number: copy
            for copy in self._copies.values()
            for number in (copy.table.added, copy.table.removed)
        }
        self._watches: set[Watch] = set()
        self._marshal: Any = MarshalRtnl()
        self._turn = trio.Lock()
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, 0
        )
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, BUFFER_BYTES)
        self._socket.bind((0, 0))
        for table in tables:
            for group in table.groups:
                self._socket.setsockopt(_SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP, group)

    @property
    def tables(self) -> Mapping[Topic, Table[Any]]:
        """The tables that are copied."""
        return {topic: copy.table for topic, copy in self._copies.items()}

    def close(self) -> None:
        """Leave the groups."""
        self._socket.close()

    async def run(self) -> None:
        """Read notifications until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            await trio.sleep(_BURST_DELAY)
            self.catch_up()

    async def read(self, topic: Topic) -> Sequence[Any]:
        """The entries of a table as of now, this process's own changes included."""
        copy = self._copies[topic]
        self.catch_up()
        if copy.is_stale or copy.missed is not None:  # being dumped: what it has are the entries before
            async with self._turn:
                if copy.is_stale:
                    await self._dump(copy)
        return tuple(copy.entries.values())

    @asynccontextmanager
    async def watch(self, topics: Topic) -> AsyncGenerator["Watch"]:
        """Yields once per burst of changes, from when the context is entered."""
        watch = Watch(topics)
        self._watches.add(watch)
        try:
            yield watch
        finally:
            self._watches.discard(watch)

    async def _dump(self, copy: _Copy) -> None:
        # What changes from here on may be in the answer or not: it is applied to that in the same order once
        # more, which ends in the same place. Others may take it from the socket before the answer is here.
        copy.is_stale, copy.missed = False, []
        table, found, is_whole = copy.table, _Copy(copy.table), False

        def take(message: Any) -> None:
            nonlocal is_whole
            is_whole &= not message["header"]["flags"] & _NLM_F_DUMP_INTR
            if self._is_counted(table, message):
                state = table.parse(message)
                found.put(table.key(state), state)

        try:
            for _ in range(MAX_DUMPS):
                found, is_whole = _Copy(table), True
                await table.dump(take)
                if is_whole:
                    break
        except BaseException:
            copy.is_stale, copy.missed = True, None
            raise
        # One that changes all the time is better than nothing, and dumped again when it is read next.
        copy.is_stale |= not is_whole
        # What the dump shows first is the same when its notification comes: earlier readers are woken here.
        changed = table.topic if copy.is_known and found.entries != copy.entries else Topic(0)
        copy.entries, copy.learned, copy.is_known = found.entries, found.learned, True
        missed, copy.missed = copy.missed, None
        for message in missed:
            changed |= self._apply(message)
        self._notify(changed)
        self.catch_up()

    def catch_up(self) -> None:
        """Apply what the kernel has sent. Its own notification precedes the answer to a change."""
        changed = Topic(0)
        while True:
            try:
                data = receive(self._socket, _RECEIVE_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                # More happened than the socket holds.
                for copy in self._copies.values():
                    copy.is_stale = True
                    changed |= copy.table.topic
                # Nor is what it still holds of use. It comes faster than it can be parsed.
                self._drain()
                break
            for message in self._marshal.parse(data):
                changed |= self._apply(message)
        self._notify(changed)

    def _drain(self) -> None:
        while True:
            try:
                receive(self._socket, _RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise

    def _notify(self, changed: Topic) -> None:
        for watch in self._watches:
            if watch.topics & changed:
                watch.notify()

    def _apply(self, message: Any) -> Topic:
        """Apply one notification; the tables that it changes."""
        header = message["header"]
        copy = self._by_type.get(header["type"])
        if copy is None or header["error"] is not None or not self._is_counted(copy.table, message):
            return Topic(0)
        table, flags = copy.table, header["flags"]
        if copy.missed is not None:
            if len(copy.missed) < MAX_MISSED:
                copy.missed.append(message)
            else:
                copy.is_stale = True
        state = table.parse(message)
        key = table.key(state)
        old = copy.entries.get(key)
        if header["type"] == table.removed:
            # Also when this copy is stale, or was dumped meanwhile: what is removed in silence with an entry
            # may still be in the copy of another table.
            silent = self.mark_stale(table.stales(state, None))
            was_known = copy.pop(key) is not None
            return silent | (table.topic if was_known or copy.is_stale else Topic(0))
        if copy.is_stale:
            return table.topic | (self.mark_stale(table.stales(old, state)) if old is not None else Topic(0))
        if not table.is_reported(message) or flags & _NLM_F_APPEND:
            copy.is_stale = True
            return table.topic
        if flags & _NLM_F_REPLACE and table.place is not None:
            place = table.place(state)
            replaced = [other for other, entry in copy.entries.items() if table.place(entry) == place]
            copy.is_stale = len(replaced) > 1
            for other in replaced:
                copy.pop(other)
        if not copy.put(key, state) or old == state:
            return Topic(0)
        return table.topic | (self.mark_stale(table.stales(old, state)) if old is not None else Topic(0))

    def mark_stale(self, topics: Topic) -> Topic:
        """Dump these tables again when they are read; returns ``topics``."""
        for copy in self._copies.values():
            if copy.table.topic & topics:
                copy.is_stale = True
        return topics

    @staticmethod
    def _is_counted(table: Table[Any], message: Any) -> bool:
        return table.family is None or message["family"] == table.family


class Watch:
    """Wakes one reader at changes; no generator, which would have to be closed."""

    def __init__(self, topics: Topic) -> None:
        self.topics = topics
        self._due = Wakeup()

    def notify(self) -> None:
        """Something has changed."""
        self._due.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> None:
        await self._due.wait()
