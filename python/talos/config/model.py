"""A config as a whole: its documents, found by kind.

    config.documents -> tuple[Document, ...]
    config.main -> V1Alpha1Config | None
    config.machine / config.cluster -> the main document's parts, None when absent
    config.find(HostnameConfig) -> HostnameConfig | None
    config.find_all(LinkConfig) -> tuple[LinkConfig, ...]
    config.machine_type -> MachineType

Settings of the main document or of a document of its own are resolved in
``talos.config.effective``.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from talos.config.problem import Mark
from talos.config.schema import Document

if TYPE_CHECKING:
    from talos.config.documents.v1alpha1.cluster import ClusterConfig
    from talos.config.documents.v1alpha1.machine import MachineConfig
    from talos.config.documents.v1alpha1.main import V1Alpha1Config


class MachineType(enum.Enum):
    """The role of a machine; the texts are those of ``machine.type``."""

    UNKNOWN = "unknown"
    INIT = "init"
    CONTROL_PLANE = "controlplane"
    WORKER = "worker"

    @property
    def is_control_plane(self) -> bool:
        """Whether the machine runs the control plane."""
        return self in {MachineType.INIT, MachineType.CONTROL_PLANE}


OTHER_WORKERS = ("", "join")
"""Other values of ``machine.type`` for a worker."""


@dataclass(frozen=True, slots=True)
class Config:
    """The documents of a config, in their order.

    ``text`` is what they were read from, comments included. ``marks`` has, for each
    document's id, the place of every value by its path.
    """

    documents: tuple[Document, ...]
    text: bytes = field(default=b"", repr=False, compare=False)
    source: str = field(default="", compare=False)
    marks: Mapping[str, Mapping[str, Mark]] = field(
        default_factory=dict[str, Mapping[str, Mark]], repr=False, compare=False
    )

    @property
    def main(self) -> "V1Alpha1Config | None":
        """The main document."""
        document = next((document for document in self.documents if not document.kind), None)
        return cast("V1Alpha1Config | None", document)

    @property
    def machine(self) -> "MachineConfig | None":
        """``machine`` of the main document."""
        return self.main.machine if self.main else None

    @property
    def cluster(self) -> "ClusterConfig | None":
        """``cluster`` of the main document."""
        return self.main.cluster if self.main else None

    @property
    def machine_type(self) -> MachineType:
        """The machine's role; UNKNOWN while the main document has no ``machine``."""
        machine = self.machine
        if machine is None:
            return MachineType.UNKNOWN
        return MachineType.WORKER if machine.type in OTHER_WORKERS else MachineType(machine.type)

    @property
    def is_complete(self) -> bool:
        """Whether a node can boot with it: the machine's type is known."""
        return self.machine_type is not MachineType.UNKNOWN

    def find[D: Document](self, kind: type[D]) -> D | None:
        """The document of a kind that occurs once, or the first."""
        return next(iter(self.find_all(kind)), None)

    def find_all[D: Document](self, kind: type[D]) -> tuple[D, ...]:
        """Every document of a kind."""
        return tuple(document for document in self.documents if isinstance(document, kind))

    def mark(self, document: Document, path: str) -> Mark | None:
        """The place of a value of a document, or of the nearest value around it."""
        marks = self.marks.get(document.id, {})
        while path and path not in marks:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return marks.get(path)
