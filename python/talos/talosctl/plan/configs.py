"""What a folder of configs changes: each node's config by its name, its address or its role."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from talos.api.machine.machine_pb2 import ApplyConfigurationRequest
from talos.client.session import Session
from talos.config.change.diff import diff, effects
from talos.config.read.loader import load
from talos.config.schema import Applies
from talos.fleet.calls import NodeStatus
from talos.system.errors import UserError
from talos.system.files import read_file
from talos.talosctl.client.change import read_config, send_config
from talos.talosctl.plan.expected import ExpectedDuration, expect_config
from talos.talosctl.plan.model import NodePlan, Reboot
from talos.talosctl.plan.state import CONFIG, make_digest

ROLES = ("controlplane", "worker")
SUFFIXES = (".yaml", ".yml")


def get_role(status: NodeStatus) -> str:
    """The role as `machine.type` writes it."""
    return ROLES[0] if status.is_control_plane else ROLES[1]


def find_files(folder: Path) -> Mapping[str, Path]:
    """The configs of a folder by their names; UserError when there is none."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    except OSError as error:
        raise UserError(f"can't be read: {error.strerror}", where=str(folder)) from error
    if not paths:
        hint = "a file for each node or role, such as controlplane.yaml or worker.yaml"
        raise UserError("has no config", where=str(folder), hint=hint)
    return {path.stem.lower(): path for path in paths}


def choose_files(
    folder: Path, files: Mapping[str, Path], nodes: Sequence[NodeStatus], *, has_all: bool
) -> Mapping[str, Path]:
    """The config of each node that has one, by its address; UserError.

    A file has the name of the node, its address, or ``controlplane``, ``worker`` for all others of the role.
    ``has_all`` is whether these are all nodes of the cluster: then a file of no node is a mistake.
    """
    chosen: dict[str, Path] = {}
    unused = files.keys() - set(ROLES)
    for status in nodes:
        names = (status.hostname.lower(), status.node.lower())
        unused = unused - set(names)
        if found := next((files[name] for name in (*names, get_role(status)) if name in files), None):
            chosen[status.node] = found
    if unused and has_all:
        hint = "a file is named after a node or its address, or controlplane.yaml, worker.yaml"
        names = ", ".join(files[name].name for name in sorted(unused))
        raise UserError(f"no node has this name: {names}", where=str(folder), hint=hint)
    if not chosen:
        hint = f"such as {nodes[0].hostname or nodes[0].node}.yaml, controlplane.yaml or worker.yaml"
        raise UserError("has no config of these nodes", where=str(folder), hint=hint)
    return chosen


async def plan_config(session: Session, status: NodeStatus, path: Path) -> NodePlan:
    """What a file changes on a node; RpcError, UserError."""
    text = read_file(str(path))
    planned = await plan_text(
        session, status, await read_config(session, status.node), text, source=str(path)
    )
    return replace(planned, file=str(path), digest=make_digest(text))


async def plan_text(
    session: Session, status: NodeStatus, before: str, after: bytes, *, source: str
) -> NodePlan:
    """What a config changes on a node, by a dry run on it; RpcError, UserError."""
    old, new = load(before, source=f"node {status.node}"), load(after, source=source)
    is_changed = old.documents != new.documents
    later = [effect for effect in effects(old, new) if effect.applies is not Applies.LIVE]
    request = ApplyConfigurationRequest(data=after, mode=ApplyConfigurationRequest.AUTO, dry_run=True)
    results = await send_config(session, status.node, request) if is_changed else []
    reboot = Reboot.NONE
    if any(effect.applies is Applies.REBOOT for effect in later):
        reboot = Reboot.NEEDED
    if any(result.mode == ApplyConfigurationRequest.REBOOT for result in results):
        reboot = Reboot.INCLUDED  # a node of upstream's decides so
    # They bring the node's own modules.
    from talos.talosctl.plan.disks import plan_disks

    disks = await plan_disks(session, status.node, old, new)
    return NodePlan(
        node=status.node,
        hostname=status.hostname,
        role=get_role(status),
        before={CONFIG: make_digest(before.encode())},
        is_changed=is_changed,
        reboot=reboot,
        changes=[f"{effect.path} takes effect {effect.applies.value}" for effect in later],
        diff=diff(old, new) if is_changed else "",
        # The node reports when settings take effect, too.
        warnings=[
            warning for result in results for warning in result.warnings if "takes effect" not in warning
        ],
        disks=disks.changes,
        disk_problems=disks.problems,
        expected=expect_config(status, reboots=reboot is Reboot.INCLUDED)
        if is_changed
        else ExpectedDuration(),
    )
