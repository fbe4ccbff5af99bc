"""The disks before and after, for the dry run of a change on a running node."""

from collections.abc import Sequence

from talos.api.rpc import RpcError
from talos.client.session import Session
from talos.config.read.loader import load
from talos.system.errors import UserError
from talos.talosctl.client.change import read_config
from talos.talosctl.output.disks import format_disk
from talos.talosctl.plan.disks import plan_disks


async def draw_disks(session: Session, node: str, new: bytes) -> Sequence[str]:
    """Lines for the disks that a new config changes; none where it can't be compared with the present one."""
    try:
        before = load(await read_config(session, node), source=f"node {node}")
        after = load(new, source="the new config")
    except (RpcError, UserError):
        return ()  # the node's own answer has what is wrong
    preview = await plan_disks(session, node, before, after)
    lines = [line for change in preview.changes for line in format_disk(change)]
    return [*lines, *(f"WARNING: {problem}" for problem in preview.problems)]
