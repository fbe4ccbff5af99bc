"""Messages of events: one for all watchers, and each watcher gets what it may see."""

from dataclasses import replace

import pytest
from google.protobuf.message import Message

from talos.api.definitions.network_pb2 import AddressStatusSpec
from talos.resource.kinds import ADDRESS_STATUS
from talos.resource.remote import messages
from talos.resource.remote.messages import EventMessages
from talos.resource.resource import Resource, make_resource
from talos.resource.state import Event, EventType


def make_event(id: str = "a", link: str = "eth0") -> Event[Message]:
    resource: Resource[Message] = make_resource(ADDRESS_STATUS, id, AddressStatusSpec(link_name=link))
    resource = resource.with_metadata(replace(resource.metadata, version=1))
    return Event(type=EventType.CREATED, resource=resource, bookmark=b"bookmark")


def test_watchers_of_an_event_share_its_message() -> None:
    made, event = EventMessages(), make_event()
    first = made.make(ADDRESS_STATUS, event, with_yaml=False)
    assert made.make(ADDRESS_STATUS, event, with_yaml=False) is first
    assert first.resource.metadata.id == "a"


def test_an_equal_event_has_a_message_of_its_own() -> None:
    """Views make events: what one caller sees is never another's."""
    made, event = EventMessages(), make_event()
    first = made.make(ADDRESS_STATUS, event, with_yaml=False)
    hidden = replace(event, resource=make_event(link="").resource)
    assert made.make(ADDRESS_STATUS, hidden, with_yaml=False) != first
    assert made.make(ADDRESS_STATUS, replace(event), with_yaml=False) is not first


def test_yaml_is_only_in_messages_that_are_to_have_it() -> None:
    made, event = EventMessages(), make_event()
    plain = made.make(ADDRESS_STATUS, event, with_yaml=False)
    full = made.make(ADDRESS_STATUS, event, with_yaml=True)
    assert not plain.resource.spec.yaml_spec
    assert "eth0" in full.resource.spec.yaml_spec


def test_few_and_small_messages_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made, event = EventMessages(), make_event()
    first = made.make(ADDRESS_STATUS, event, with_yaml=False)
    for number in range(messages.MAX_KEPT):
        made.make(ADDRESS_STATUS, make_event(str(number)), with_yaml=False)
    assert made.make(ADDRESS_STATUS, event, with_yaml=False) is not first
    monkeypatch.setattr(messages, "MAX_BYTES", 10)
    large = make_event("large")
    assert made.make(ADDRESS_STATUS, large, with_yaml=False) is not made.make(
        ADDRESS_STATUS, large, with_yaml=False
    )


def test_contents_of_a_watch_are_not_kept() -> None:
    """They are made for that watch alone."""
    made, event = EventMessages(), replace(make_event(), bookmark=b"")
    first = made.make(ADDRESS_STATUS, event, with_yaml=False)
    assert made.make(ADDRESS_STATUS, event, with_yaml=False) is not first
