"""What a controller declares to read and write, and the refusal of everything else."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from google.protobuf.message import Message

from talos.resource.changes import is_destroy_ready
from talos.resource.kind import Kind
from talos.resource.resource import Resource


class UndeclaredAccessError(Exception):
    """A controller touched a resource it did not declare: a defect of that controller."""


class InputStrength(enum.Enum):
    """How an input binds its controller.

    WEAK: reconcile on every change. STRONG: the same, and the controller may put its
    finalizer on the resource. DESTROY_READY: reconcile only when the resource is being
    torn down and has no finalizers; for a controller's own outputs.
    """

    WEAK = "weak"
    STRONG = "strong"
    DESTROY_READY = "destroy ready"


@dataclass(frozen=True, slots=True)
class Input:
    """A kind, or one resource of it, that a controller reads; the kind's namespace unless given."""

    kind: Kind[Message]
    id: str | None = None
    namespace: str | None = None
    strength: InputStrength = field(default=InputStrength.WEAK, kw_only=True)

    @property
    def effective_namespace(self) -> str:
        """The namespace the input is about."""
        return self.kind.namespace if self.namespace is None else self.namespace

    def covers(self, kind: Kind[Message], id: str | None, namespace: str | None) -> bool:
        """Whether reading this resource, or all when ``id`` is None, is declared by the input."""
        wanted = kind.choose_namespace(namespace)
        return (
            kind.type == self.kind.type
            and wanted == self.effective_namespace
            and self.id in (None, id)
            and self.strength is not InputStrength.DESTROY_READY
        )

    def is_woken_by(self, resource: Resource[Message]) -> bool:
        """Whether a change of this resource, of the input's kind and namespace, matters."""
        if self.id is not None and self.id != resource.id:
            return False
        return self.strength is not InputStrength.DESTROY_READY or is_destroy_ready(resource)


@dataclass(frozen=True, slots=True)
class Output:
    """A kind that a controller writes.

    An exclusive output has one writer. Of a shared one every writer sees all, but changes
    only its own resources. ``namespace`` is the one that :meth:`ControllerRuntime.track_outputs` cleans
    up even before the first write, the kind's unless given.
    """

    kind: Kind[Message]
    shared: bool = False
    namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerAccess:
    """The declarations of one controller, and the checks against them."""

    name: str
    inputs: Sequence[Input]
    outputs: Sequence[Output]

    def check_read(self, kind: Kind[Message], id: str | None, namespace: str | None) -> None:
        """Refuse reads of kinds that are neither inputs nor outputs."""
        if self._writes(kind) or any(item.covers(kind, id, namespace) for item in self.inputs):
            return
        self._refuse("reads", kind, id, namespace, "an input")

    def check_write(self, kind: Kind[Message], id: str, namespace: str | None) -> None:
        """Refuse writes of kinds that are not outputs."""
        if not self._writes(kind):
            self._refuse("writes", kind, id, namespace, "an output")

    def check_finalizer(self, kind: Kind[Message], id: str, namespace: str | None) -> None:
        """Refuse a finalizer on a kind that is not a strong input."""
        for item in self.inputs:
            if item.strength is InputStrength.STRONG and item.covers(kind, id, namespace):
                return
        self._refuse("changes a finalizer of", kind, id, namespace, "a strong input")

    def _writes(self, kind: Kind[Message]) -> bool:
        return any(item.kind.type == kind.type for item in self.outputs)

    def _refuse(
        self, deed: str, kind: Kind[Message], id: str | None, namespace: str | None, remedy: str
    ) -> None:
        place = f"{kind.choose_namespace(namespace)}/{id or '*'}"
        raise UndeclaredAccessError(
            f"{self.name} {deed} {kind.type}({place}), which is not declared as {remedy}"
        )
