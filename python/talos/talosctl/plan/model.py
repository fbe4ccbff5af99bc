"""A plan: what a folder of configs, a release or a version of Kubernetes changes on each node of a cluster.

It has no secrets: configs stay in their files, of which the plan has the digests.
"""

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from talos.disks.preview.layout import DiskChange
from talos.system.errors import UserError
from talos.talosctl.output.yaml_text import parse_yaml
from talos.talosctl.plan.expected import ExpectedDuration, expect_all

FORMAT = 1
"""Of the document; another number is another client's."""


class Subject(enum.Enum):
    """What is planned."""

    CONFIG = "config"
    RELEASE = "release"
    KUBERNETES = "kubernetes"


class Reboot(enum.Enum):
    """What a change has to do with a reboot."""

    NONE = "none"
    NEEDED = "needed"
    """A part of it takes effect at the next reboot, which the plan does not do."""
    INCLUDED = "included"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """One node. ``before`` is what the plan was made from; ``file`` and ``digest`` are of its config."""

    node: str
    hostname: str = ""
    role: str = ""
    before: Mapping[str, str] = field(default_factory=dict[str, str])
    is_changed: bool = False
    reboot: Reboot = Reboot.NONE
    changes: Sequence[str] = ()
    diff: str = ""
    warnings: Sequence[str] = ()
    pods: Sequence[str] = ()
    """Those that move elsewhere before the node reboots."""
    checks: Sequence[str] = ()
    """The config's own, which decide beside the self-check whether a release is kept."""
    problems: Sequence[str] = ()
    """What is the matter with the node before."""
    file: str = ""
    digest: str = ""
    disks: Sequence[DiskChange] = ()
    disk_problems: Sequence[str] = ()
    """Why the disks don't become what the config has."""
    expected: ExpectedDuration = field(default_factory=ExpectedDuration)

    @property
    def name(self) -> str:
        """Address and hostname for a person."""
        return f"{self.node} ({self.hostname})" if self.hostname else self.node


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """All nodes in the order in which they are changed. ``version`` and ``image`` are the release's."""

    subject: Subject
    nodes: Sequence[NodePlan]
    version: str = ""
    image: str = ""
    parallel: int = 1
    max_unavailable: str = ""
    steps: Sequence[str] = ()
    """What an upgrade of Kubernetes does, line by line."""
    order: Sequence[Sequence[str]] = ()
    """The nodes that are changed, by their addresses: those of a step at once, steps one after the other."""

    @property
    def expected(self) -> ExpectedDuration:
        """How long all of it takes."""
        nodes = {node.node: node.expected for node in self.nodes}
        return expect_all([[nodes[node] for node in step] for step in self.order])

    @property
    def changed(self) -> Sequence[NodePlan]:
        """The nodes that are changed."""
        return [node for node in self.nodes if node.is_changed]

    def document(self) -> dict[str, object]:
        """The whole for programs, and for ``talosctl apply --plan``."""
        return {
            "format": FORMAT,
            "subject": self.subject.value,
            "changed": bool(self.changed),
            "version": self.version,
            "image": self.image,
            "parallel": self.parallel,
            "maxUnavailable": self.max_unavailable,
            "steps": list(self.steps),
            "order": [list(step) for step in self.order],
            "expected": self.expected.document(),
            "nodes": [
                {
                    "node": node.node,
                    "hostname": node.hostname,
                    "role": node.role,
                    "before": dict(node.before),
                    "changed": node.is_changed,
                    "reboot": node.reboot.value,
                    "changes": list(node.changes),
                    "diff": node.diff,
                    "warnings": list(node.warnings),
                    "pods": list(node.pods),
                    "checks": list(node.checks),
                    "problems": list(node.problems),
                    "file": node.file,
                    "digest": node.digest,
                    "disks": [asdict(change) for change in node.disks],
                    "diskProblems": list(node.disk_problems),
                    "expected": node.expected.document(),
                }
                for node in self.nodes
            ],
        }


def parse_plan(data: bytes, source: str) -> ClusterPlan:
    """The plan that :meth:`ClusterPlan.document` wrote, as JSON or YAML; UserError.

    Without what is only shown: the disks and the order, which follows from the nodes, and the times.
    """
    try:
        return _parse_document(_Reader(_load(data)))
    except (ValueError, RecursionError, UserError) as error:
        hint = "write one with talosctl plan --output json"
        raise UserError(f"is no plan: {error}", where=source, hint=hint) from None


def _load(data: bytes) -> object:
    """JSON, which begins with a bracket, or else YAML; ValueError, RecursionError, UserError."""
    return json.loads(data) if data.lstrip()[:1] in b"[{" else parse_yaml(data.decode())


def _parse_document(document: "_Reader") -> ClusterPlan:
    if document.number("format") != FORMAT:
        raise ValueError(f"format {document.number('format')} is not {FORMAT}")
    return ClusterPlan(
        subject=Subject(document.text("subject")),
        version=document.text("version"),
        image=document.text("image"),
        parallel=document.number("parallel"),
        max_unavailable=document.text("maxUnavailable"),
        steps=document.texts("steps"),
        nodes=[_parse_node(_Reader(row)) for row in document.items("nodes")],
    )


def _parse_node(row: "_Reader") -> NodePlan:
    return NodePlan(
        node=row.text("node"),
        hostname=row.text("hostname"),
        role=row.text("role"),
        before=row.pairs("before"),
        is_changed=row.is_true("changed"),
        reboot=Reboot(row.text("reboot")),
        changes=row.texts("changes"),
        diff=row.text("diff"),
        warnings=row.texts("warnings"),
        pods=row.texts("pods"),
        checks=row.texts("checks"),
        problems=row.texts("problems"),
        file=row.text("file"),
        digest=row.text("digest"),
    )


class _Reader:
    """The values of an object by their types; ValueError."""

    def __init__(self, value: object) -> None:
        if not isinstance(value, dict):
            raise ValueError("an object was expected")  # noqa: TRY004 - a mistake in the text, as any other
        self._value = cast("dict[str, Any]", value)

    def _get[T](self, key: str, kind: type[T]) -> T:
        value = self._value.get(key)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ValueError(f"{key} is no {kind.__name__}")
        return value

    def text(self, key: str) -> str:
        return self._get(key, str)

    def number(self, key: str) -> int:
        return self._get(key, int)

    def is_true(self, key: str) -> bool:
        return self._get(key, bool)

    def items(self, key: str) -> list[Any]:
        return cast("list[Any]", self._get(key, list))

    def texts(self, key: str) -> Sequence[str]:
        return [_check_text(key, item) for item in self.items(key)]

    def pairs(self, key: str) -> Mapping[str, str]:
        found = cast("dict[str, Any]", self._get(key, dict))
        return {name: _check_text(key, value) for name, value in found.items()}


def _check_text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{key} has something that is no text")  # noqa: TRY004 - as above
    return value
