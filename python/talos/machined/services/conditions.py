"""Conditions that a service waits for before it starts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from google.protobuf.message import Message

from talos.resource.changes import wait_for
from talos.resource.kind import Kind
from talos.resource.resource import Resource
from talos.resource.state import State


class Condition(Protocol):
    """A condition that becomes true eventually."""

    @property
    def text(self) -> str:
        """What is waited for, as in "waiting for …"."""
        ...

    async def wait(self, state: State) -> None:
        """Wait until it holds."""
        ...


def _exists(_resource: Resource[Message]) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceReady:
    """A resource exists and satisfies a predicate."""

    text: str
    kind: Kind[Message]
    id: str
    predicate: Callable[[Resource[Message]], bool] = _exists

    async def wait(self, state: State) -> None:
        """Wait until it holds."""
        await wait_for(state, self.kind, self.id, self.predicate)
