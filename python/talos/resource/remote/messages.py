"""Events as messages for the wire, made once for all of their watchers."""

from typing import cast

from google.protobuf.message import Message

from talos.api.cosi import state_pb2
from talos.resource.kind import Kind
from talos.resource.state import Event
from talos.resource.yaml.spec import resource_to_proto

MAX_KEPT = 64
"""Messages that are kept: the State lets watchers run after so many writes at the latest."""
MAX_BYTES = 16 * 1024
"""Bytes of one that is kept; a larger one is made for each watcher."""


class EventMessages:
    """Messages of the last events.

    Those who watch a kind are given the same events shortly after each other.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, bool], tuple[Event[Message], state_pb2.Event]] = {}
        """By the event's identity, which is its own for as long as it is held here."""

    def make(self, kind: Kind[Message], event: Event[Message], *, with_yaml: bool) -> state_pb2.Event:
        """The message of an event, which must not be changed.

        Only an event of the history, which has a bookmark, has several watchers.
        """
        key = id(event), with_yaml
        kept = self._kept.get(key)
        if kept is not None:
            return kept[1]
        message = _event_to_proto(kind, event, with_yaml=with_yaml)
        if event.bookmark and message.ByteSize() <= MAX_BYTES:
            if len(self._kept) == MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = event, message
        return message


def _event_to_proto(kind: Kind[Message], event: Event[Message], *, with_yaml: bool) -> state_pb2.Event:
    return state_pb2.Event(
        event_type=cast("state_pb2.EventType", int(event.type)),
        resource=None
        if event.resource is None
        else resource_to_proto(kind, event.resource, with_yaml=with_yaml),
        old=None if event.old is None else resource_to_proto(kind, event.old, with_yaml=with_yaml),
        error=event.error or None,
        bookmark=event.bookmark or None,
    )
