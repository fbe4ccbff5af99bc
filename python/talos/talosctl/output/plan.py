"""A plan as text: the nodes in their order, what changes on each, and the sum."""

from collections.abc import Iterator

from talos.talosctl.output.disks import format_disk
from talos.talosctl.plan.model import ClusterPlan, NodePlan, Reboot

_REBOOTS = {
    Reboot.NONE: "changes without a reboot",
    Reboot.NEEDED: "changes, in part at the next reboot",
    Reboot.INCLUDED: "changes and reboots",
}


def format_plan(plan: ClusterPlan) -> str:
    """The whole, with a sum as its last line."""
    lines = [line for number, node in enumerate(plan.nodes, 1) for line in _format_node(number, node)]
    if plan.order:
        lines += [f"in this order: {_format_order(plan)}", f"time: {plan.expected}"]
    if plan.steps:
        lines += ["steps:", *(f"   {step}" for step in plan.steps)]
    changed = plan.changed
    if not changed:
        return "\n".join([*lines, "nothing to change"]) + "\n"
    reboots = sum(node.reboot is not Reboot.NONE for node in changed)
    reboot = f", for {reboots} with a reboot" if reboots else ", without a reboot"
    return "\n".join([*lines, f"{len(changed)} of {len(plan.nodes)} nodes to change{reboot}"]) + "\n"


def _format_node(number: int, node: NodePlan) -> Iterator[str]:
    what = _REBOOTS[node.reboot] if node.is_changed else "nothing"
    yield f"{number}. {node.name}, {node.role}: {what}"
    if not node.is_changed:
        return
    yield from (f"   {change}" for change in node.changes)
    if node.pods:
        yield f"   pods that move: {', '.join(node.pods)}"
    yield from (f"   trial check {check}" for check in node.checks)
    yield from (f"   WARNING: {warning}" for warning in node.warnings)
    yield from (f"   WARNING: not healthy before: {problem}" for problem in node.problems)
    yield f"   time: {node.expected}"
    yield from (f"   {line}" for change in node.disks for line in format_disk(change))
    yield from (f"   WARNING: {problem}" for problem in node.disk_problems)
    yield from (f"   {line}" for line in node.diff.splitlines())


def _format_order(plan: ClusterPlan) -> str:
    names = {node.node: node.name for node in plan.nodes}
    return "; ".join(" and ".join(names[node] for node in step) for step in plan.order)
