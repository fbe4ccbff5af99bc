"""The resources of one type in one namespace, and the watches over them."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import trio
from google.protobuf.message import Message

from talos.resource.memory.history import History
from talos.resource.memory.usage import Usage, measure
from talos.resource.query import ALL, Query
from talos.resource.resource import Resource
from talos.resource.state import BookmarkError, Event, EventType, WatchOptions

_EPOCH = os.urandom(8)
"""Part of every bookmark: a bookmark of another process refers to another history."""


class Collection:
    """Resources by id, and their history."""

    def __init__(self, usage: Usage) -> None:
        self.resources: dict[str, Resource[Message]] = {}
        self.history = History(usage)
        self._sizes: dict[str, int] = {}
        self._usage = usage

    def matching(self, query: Query) -> list[Resource[Message]]:
        """The resources that match, ordered by id."""
        found = self.resources.values()
        if query is not ALL:
            found = (item for item in found if query.matches(item.id, item.metadata.labels))
        return sorted(found, key=lambda item: item.id)

    def put(self, resource: Resource[Message]) -> None:
        """Store a resource, new or changed."""
        old = self.resources.get(resource.id)
        self.resources[resource.id] = resource
        before, size = self._sizes.get(resource.id, 0), measure(resource)
        self._sizes[resource.id] = size
        self._usage.count(resource.metadata.owner, size - before)
        self._record(EventType.CREATED if old is None else EventType.UPDATED, resource, old, size=size)

    def remove(self, id: str) -> None:
        """Drop a stored resource."""
        resource, size = self.resources.pop(id), self._sizes.pop(id)
        self._usage.count(resource.metadata.owner, -size)
        self._record(EventType.DESTROYED, resource, size=size)

    def bookmark(self, after: int = 0) -> bytes:
        """Where the history ends, now or ``after`` more events."""
        return _EPOCH + (self.history.end + after).to_bytes(8)

    def parse_bookmark(self, bookmark: bytes) -> int:
        """The position a bookmark stands for; BookmarkError."""
        position = int.from_bytes(bookmark[8:])
        if len(bookmark) != 16 or bookmark[:8] != _EPOCH:
            raise BookmarkError("invalid watch bookmark: it is not of this state")
        if not self.history.safe_start <= position <= self.history.end:
            raise BookmarkError("invalid watch bookmark: the history kept doesn't reach back to it")
        return position

    def _record(
        self,
        type: EventType,
        resource: Resource[Message],
        old: Resource[Message] | None = None,
        *,
        size: int,
    ) -> None:
        event = Event(type=type, resource=resource, old=old, bookmark=self.bookmark(after=1))
        self.history.append(event, size)


class MemoryWatch:
    """An iterator over the events of a collection, beginning with some prepared ones.

    It keeps a place in the history and no queue, so a slow watcher costs nothing.
    """

    def __init__(
        self,
        collection: Collection,
        *,
        position: int,
        first: Sequence[Event[Message]],
        query: Query = ALL,
        id: str | None = None,
        aggregated: bool = False,
    ) -> None:
        self._history = collection.history
        self._position = position
        self._first = list(reversed(first))
        self._query = query
        self._id = id
        self._aggregated = aggregated
        self._ended = False

    @classmethod
    def of_kind(cls, collection: Collection, query: Query, options: WatchOptions) -> Self:
        """The watch of a whole collection."""
        options.check()
        history = collection.history
        position = history.end
        first: list[Event[Message]] = []
        if options.bookmark is not None:
            position = collection.parse_bookmark(options.bookmark)
        elif options.tail:
            position = max(history.safe_start, history.end - options.tail)
        if options.bootstrap:
            first = [Event(type=EventType.CREATED, resource=item) for item in collection.matching(query)]
            first.append(Event(type=EventType.BOOTSTRAPPED, bookmark=collection.bookmark()))
        elif options.bootstrap_bookmark:
            first = [Event(type=EventType.NOOP, bookmark=collection.bookmark())]
        return cls(collection, position=position, first=first, query=query, aggregated=options.aggregated)

    @classmethod
    def of_id(cls, collection: Collection, tombstone: Resource[Message], options: WatchOptions) -> Self:
        """The watch of one resource; ``tombstone`` stands for it while it is not there."""
        options.check()
        history = collection.history
        position = history.end
        first: list[Event[Message]] = []
        if options.bookmark is not None:
            position = collection.parse_bookmark(options.bookmark)
        elif options.tail:
            position = _find_tail(history, tombstone.id, options.tail)
        elif current := collection.resources.get(tombstone.id):
            first = [Event(type=EventType.CREATED, resource=current, bookmark=collection.bookmark())]
        else:
            first = [Event(type=EventType.DESTROYED, resource=tombstone, bookmark=collection.bookmark())]
        return cls(collection, position=position, first=first, id=tombstone.id, aggregated=options.aggregated)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[Event[Message]]:
        if self._ended:
            raise StopAsyncIteration
        if self._first:
            await trio.lowlevel.checkpoint_if_cancelled()
            return self._take_first()
        await trio.lowlevel.checkpoint()
        while not (events := self._take()):
            if self._id is None:
                await self._history.wait_beyond(self._position)
            else:  # all until now is seen
                self._position = await self._history.wait_for(self._id)
        return events

    def _take_first(self) -> Sequence[Event[Message]]:
        if not self._aggregated:
            return (self._first.pop(),)
        events = self._first[::-1]
        self._first = []
        return events

    def _take(self) -> Sequence[Event[Message]]:
        if self._position < self._history.start:
            self._ended = True
            return (Event(type=EventType.ERRORED, error="watch fell behind: events were lost"),)
        events: list[Event[Message]] = []
        while self._position < self._history.end:
            event = self._seen(self._history.at(self._position))
            self._position += 1
            if event is not None:
                events.append(event)
                if not self._aggregated:
                    break
        return events

    def _seen(self, event: Event[Message]) -> Event[Message] | None:
        """The event as it looks through the query: what leaves its view is destroyed."""
        resource, old = event.resource, event.old
        if resource is None:
            return None
        if self._id is not None:
            return event if resource.id == self._id else None
        if self._query is ALL:
            return event
        is_in = self._query.matches(resource.id, resource.metadata.labels)
        if old is None:
            return event if is_in else None
        was_in = self._query.matches(old.id, old.metadata.labels)
        if is_in and was_in:
            return event
        if is_in:
            return replace(event, type=EventType.CREATED, old=None)
        return replace(event, type=EventType.DESTROYED, old=None) if was_in else None


def _find_tail(history: History, id: str, count: int) -> int:
    position = history.end
    while count and position > history.safe_start:
        position -= 1
        resource = history.at(position).resource
        count -= resource is not None and resource.id == id
    return position
