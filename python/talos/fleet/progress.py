"""How far an upgrade of many nodes is: one row for each, and the whole as a document."""

import enum
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol


class NodeStep(enum.Enum):
    """Where a node is; the values are what users see."""

    NOT_STARTED = "not started"
    CURRENT = "runs it already"
    PULLING = "pulling"
    INSTALLING = "installing"
    STAGED = "installed, not booted"
    REBOOTING = "rebooting"
    TRIAL = "on trial"
    RECOVERING = "recovering"
    DONE = "done"
    FAILED = "failed"

    @property
    def is_active(self) -> bool:
        """Whether something happens to the node."""
        return self in _ACTIVE


_ACTIVE = (NodeStep.PULLING, NodeStep.INSTALLING, NodeStep.REBOOTING, NodeStep.TRIAL, NodeStep.RECOVERING)


@dataclass(slots=True, kw_only=True)
class NodeProgress:
    """One node. Times are of the monotonic clock in seconds, 0 before they are known."""

    node: str
    hostname: str = ""
    is_control_plane: bool = False
    before: str = ""
    after: str = ""
    step: NodeStep = NodeStep.NOT_STARTED
    detail: str = ""
    """The text of the step; of a failure the reason."""
    is_untouched: bool = False
    """Of a failure: that nothing had been written yet, so that the release is not at fault."""
    began: float = 0.0
    down: float = 0.0
    up: float = 0.0
    ended: float = 0.0

    @property
    def name(self) -> str:
        """Address and hostname for a person."""
        return f"{self.node} ({self.hostname})" if self.hostname else self.node

    @property
    def seconds(self) -> float:
        """From its first step to its last, or to now."""
        return (self.ended or time.monotonic()) - self.began if self.began else 0.0

    @property
    def is_unavailable(self) -> bool:
        """Whether it has gone down and is not healthy again."""
        return bool(self.down) and self.step is not NodeStep.DONE

    @property
    def downtime(self) -> float:
        """From the reboot until it was healthy again."""
        return (self.up or time.monotonic()) - self.down if self.down else 0.0


class Watcher(Protocol):
    """Who follows an upgrade."""

    def changed(self, row: NodeProgress) -> None:
        """A node's step or its detail is another."""
        ...


@dataclass(slots=True, kw_only=True)
class FleetProgress:
    """All rows. ``reason`` is why the upgrade stopped before its end."""

    image: str
    version: str = ""
    rows: Sequence[NodeProgress]
    watcher: Watcher
    reason: str = ""
    began: float = field(default_factory=time.monotonic)

    def move(self, row: NodeProgress, step: NodeStep, detail: str = "") -> None:
        """Note a node's step."""
        now = time.monotonic()
        row.began = row.began or (now if step.is_active else 0.0)
        if step is NodeStep.REBOOTING:
            row.down = row.down or now
        if step is NodeStep.DONE:
            row.up = now
        if step in (NodeStep.DONE, NodeStep.FAILED):
            row.ended = now
        row.step, row.detail = step, detail
        self.watcher.changed(row)

    @property
    def has_succeeded(self) -> bool:
        """Whether every node runs the release."""
        return not self.reason and all(row.step in (NodeStep.DONE, NodeStep.CURRENT) for row in self.rows)

    def document(self) -> dict[str, object]:
        """The whole for programs; times in seconds."""
        return {
            "image": self.image,
            "version": self.version,
            "succeeded": self.has_succeeded,
            "reason": self.reason,
            "seconds": round(time.monotonic() - self.began, 1),
            "nodes": [
                {
                    "node": row.node,
                    "hostname": row.hostname,
                    "role": "controlplane" if row.is_control_plane else "worker",
                    "before": row.before,
                    "after": row.after,
                    "result": row.step.value,
                    "reason": row.detail if row.step is NodeStep.FAILED else "",
                    "seconds": round(row.seconds, 1),
                    "secondsUnavailable": round(row.downtime, 1),
                }
                for row in self.rows
            ],
        }
