"""What keeps a release from nodes: a pause, a closed window, nodes that are unhealthy or have reverted it."""

from datetime import datetime

from talos.fleet.plan import Plan
from talos.upgrade.state import Phase
from talos.upgrade_controller.config import Settings

CLOSED, PAUSED = "the maintenance window is closed", "paused"


def find_closed(settings: Settings, now: datetime) -> str:
    """Why no node may begin now, empty when one may."""
    if settings.policy.paused:
        return PAUSED
    if settings.windows and not any(window.is_open(now) for window in settings.windows):
        return CLOSED
    return ""


def find_unhealthy(plan: Plan) -> str:
    """Which nodes are unhealthy, and why: no operator is there, so an upgrade does not begin then."""
    found = [
        f"{entry.name} is unhealthy: {'; '.join(plan.problems[entry.node].values())}"
        for entry in plan.nodes
        if plan.problems.get(entry.node)
    ]
    return ", ".join(found)


def find_reverted(plan: Plan, version: str) -> str:
    """Which nodes have tried a release and gone back, and why."""
    found = [
        f"{entry.name}: {version} was reverted, {entry.version} runs: {entry.upgrade.reason}"
        for entry in plan.nodes
        if entry.upgrade is not None
        and entry.upgrade.phase is Phase.REVERTED
        and entry.upgrade.version == version != entry.version
    ]
    return "; ".join(found)
