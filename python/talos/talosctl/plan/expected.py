"""How long a plan takes: what nodes have recorded, what is waited for, and what is not known."""

from collections.abc import Sequence
from dataclasses import dataclass

from talos.api.durations import format_duration
from talos.fleet.calls import POLL_INTERVAL, NodeStatus
from talos.fleet.engine import PROBLEM_TIMEOUT, TIMEOUT
from talos.fleet.plan import Plan, parse_unavailable

HEALTHY_TIMEOUT = 300.0
"""Seconds for a node to be as healthy with a new config as before."""
STEADY = 3
"""Looks in a row without a new problem: a config is not in force everywhere at the first."""
_RELEASE = ("the pull of the release", "its firmware")
_PODS = "the move of its pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedDuration:
    """Seconds: ``known`` without what is ``unknown``, and ``limit``, after which it has failed; 0 for none.

    ``basis`` is where the known ones come from.
    """

    known: float = 0.0
    limit: float = 0.0
    basis: str = ""
    unknown: Sequence[str] = ()

    def document(self) -> dict[str, object]:
        """For programs."""
        return {
            "knownSeconds": round(self.known, 1),
            "limitSeconds": round(self.limit, 1),
            "basis": self.basis,
            "unknown": list(self.unknown),
        }

    def __str__(self) -> str:
        known = f"about {format_duration(round(self.known))}" if self.known else ""
        if known and self.basis:
            known += f" ({self.basis})"
        if self.unknown:
            known = f"{known}, beside what is" if known else ""
            known = f"{known} not known: {', '.join(self.unknown)}".strip()
        limit = f"at most {format_duration(self.limit)}" if self.limit else ""
        return "; ".join(filter(None, (known, limit)))


def expect_config(status: NodeStatus, *, reboots: bool) -> ExpectedDuration:
    """Of a node that gets a config, and is then watched; ``reboots`` when it reboots for it itself."""
    known = STEADY * POLL_INTERVAL
    if not reboots:
        return ExpectedDuration(known=known, limit=HEALTHY_TIMEOUT)
    boot = expect_release(status, moves_pods=False)
    return ExpectedDuration(
        known=known + boot.known, limit=HEALTHY_TIMEOUT, basis=boot.basis, unknown=boot.unknown[1:]
    )


def expect_release(status: NodeStatus, *, moves_pods: bool) -> ExpectedDuration:
    """Of a node that is upgraded: the boot is as long as its last one."""
    unknown = [*_RELEASE, _PODS] if moves_pods else [*_RELEASE]
    if not status.boot_seconds:
        unknown.append("its boot")
    return ExpectedDuration(
        known=status.boot_seconds,
        limit=2 * TIMEOUT + PROBLEM_TIMEOUT,
        basis="its boot, as long as the last one" if status.boot_seconds else "",
        unknown=unknown,
    )


def find_order(
    plan: Plan, changed: Sequence[str], *, parallel: int, unavailable: str = ""
) -> list[list[str]]:
    """Those of the nodes that are changed, in steps: up to ``parallel`` workers at once; UserError."""
    down = parse_unavailable(unavailable, len(plan.workers)) if unavailable else parallel
    width = min(parallel, down)
    control_plane = [[status.node] for status in plan.control_plane if status.node in changed]
    workers = [status.node for status in plan.workers if status.node in changed]
    return [*control_plane, *(workers[at : at + width] for at in range(0, len(workers), width))]


def expect_all(steps: Sequence[Sequence[ExpectedDuration]]) -> ExpectedDuration:
    """Of steps one after the other, each as long as its longest; no limit when a node of them has none."""
    limits = [[one.limit for one in step] for step in steps]
    return ExpectedDuration(
        known=sum(max(one.known for one in step) for step in steps),
        limit=sum(map(max, limits)) if all(map(all, limits)) else 0.0,
        unknown=list(dict.fromkeys(text for step in steps for one in step for text in one.unknown)),
    )
