"""What a plan takes for granted of a node, and whether it still holds."""

import hashlib
from collections.abc import Mapping, Sequence

from talos.client.session import Session
from talos.fleet.calls import fetch_status
from talos.system.files import read_file
from talos.talosctl.cli.exit import CommandError, Exit
from talos.talosctl.client.change import read_config
from talos.talosctl.client.fanout import call_nodes, report_failures
from talos.talosctl.client.health import SessionCalls
from talos.talosctl.plan.model import NodePlan, Subject

VERSION, CONFIG = "version", "config"


def make_digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


async def read_state(session: Session, node: str, subject: Subject) -> Mapping[str, str]:
    """What the subject changes, as the node has it now; RpcError."""
    if subject is Subject.RELEASE:
        return {VERSION: (await fetch_status(SessionCalls(session), node)).version}
    return {CONFIG: make_digest((await read_config(session, node)).encode())}


async def check_unchanged(session: Session, nodes: Sequence[NodePlan], subject: Subject) -> int:
    """The exit code of calls that failed; CommandError when a node is not as in the plan."""
    by_address = {node.node: node for node in nodes}

    async def call(session: Session, node: str) -> str:
        before, now = by_address[node].before, await read_state(session, node, subject)
        names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        return ", ".join(f"another {name}" for name in names)

    outcomes = await call_nodes(session, list(by_address), call)
    if code := report_failures(session, outcomes):
        return code
    stale = [f"{by_address[one.node].name} has {one.value}" for one in outcomes if one.value]
    if stale:
        raise _make_stale("the cluster", f"{'; '.join(stale)} since the plan was made")
    return Exit.DONE


def read_planned(node: NodePlan) -> bytes:
    """The config of a plan; CommandError when the file has another one by now."""
    text = read_file(node.file)
    if make_digest(text) != node.digest:
        raise _make_stale(node.file, "it was changed since the plan was made")
    return text


def _make_stale(where: str, text: str) -> CommandError:
    return CommandError(f"{where}: {text}; nothing has been changed: plan again", code=Exit.REFUSED)
