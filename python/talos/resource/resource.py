"""A resource: a typed spec with metadata, as the State keeps it."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic

from google.protobuf.message import Message

from talos.resource.kind import Kind, S_co

EMPTY: Mapping[str, str] = MappingProxyType({})


class Phase(enum.Enum):
    """The phase of a resource's life cycle; the text is the one on the wire."""

    RUNNING = "running"
    TEARING_DOWN = "tearingDown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The metadata of a resource.

    ``version`` counts from 1 and goes up by one with every update; 0 means that the
    resource was never stored. ``created`` and ``updated`` are nanoseconds since the epoch.
    """

    namespace: str
    type: str
    id: str
    version: int = 0
    owner: str = ""
    phase: Phase = Phase.RUNNING
    created: int = 0
    updated: int = 0
    finalizers: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default=EMPTY)
    annotations: Mapping[str, str] = field(default=EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[S_co]):  # noqa: UP046 - see S_co
    """One resource.

    The State copies the resources that it stores and shares those that it returns: a spec
    must not be changed in place. :func:`talos.resource.changes.modify` changes a copy.
    """

    metadata: Metadata
    spec: S_co

    @property
    def id(self) -> str:
        """The id, unique within namespace and type."""
        return self.metadata.id

    def with_spec[T: Message](self, spec: T) -> "Resource[T]":
        """The same resource with another spec."""
        return Resource(metadata=self.metadata, spec=spec)

    def with_metadata(self, metadata: Metadata) -> "Resource[S_co]":
        """The same resource with other metadata."""
        return Resource(metadata=metadata, spec=self.spec)


def make_resource[S: Message](
    kind: Kind[S],
    id: str,
    spec: S,
    *,
    namespace: str | None = None,
    labels: Mapping[str, str] = EMPTY,
    annotations: Mapping[str, str] = EMPTY,
) -> Resource[S]:
    """A new resource that was never stored; the kind's default namespace unless given."""
    metadata = Metadata(
        namespace=kind.choose_namespace(namespace),
        type=kind.type,
        id=id,
        labels=labels,
        annotations=annotations,
    )
    return Resource(metadata=metadata, spec=spec)
