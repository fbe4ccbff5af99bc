"""Conditions that a service waits for before it starts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

import trio
from google.protobuf.message import Message

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.block_pb2 import VolumeStatusSpec
from talos.resource import kinds
from talos.resource.changes import wait_for
from talos.resource.kind import Kind
from talos.resource.resource import Resource
from talos.resource.state import State
from talos.system.backoff import Backoff

POLL_BACKOFF = Backoff(0.25, 8.0)
"""Seconds between two checks for a path."""


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


def make_volume_ready(volume: str) -> ResourceReady:
    """A volume of the system is there: its partition is mounted, or it is a folder of EPHEMERAL."""
    return ResourceReady(
        text=f"volume {volume}", kind=kinds.VOLUME_STATUS, id=volume, predicate=is_volume_ready
    )


def is_volume_ready(resource: Resource[Message]) -> bool:
    """Whether a VolumeStatus is that of a volume in use."""
    return cast("VolumeStatusSpec", resource.spec).phase == enums.VOLUME_PHASE_READY


@dataclass(frozen=True, slots=True)
class PathExists:
    """A file, a folder or a device is there. It polls: a filesystem may be mounted there in between."""

    path: str

    @property
    def text(self) -> str:
        """What is waited for."""
        return f'file "{self.path}" to exist'

    async def wait(self, state: State) -> None:
        """Wait until it holds."""
        del state
        for delay in POLL_BACKOFF:
            if await trio.Path(self.path).exists():
                return
            await trio.sleep(delay)
