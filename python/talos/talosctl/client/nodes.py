"""Which nodes ``--nodes`` means: addresses, names of members, groups of them.

A group is ``@all``, ``@controlplane``, ``@workers``, or ``@label=`` with a label of Kubernetes and perhaps
its value. Members are those that the endpoint has. A name of no member is left for the endpoint.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from talos.api.definitions.cluster_pb2 import MemberSpec
from talos.api.machine_types import is_control_plane
from talos.api.rpc import RpcError
from talos.client.failure import describe
from talos.client.session import Session, open_session
from talos.client.target import Target
from talos.health.conditions import find_address
from talos.resource import kinds
from talos.system.errors import UserError
from talos.talosctl.cli.exit import CommandError, Exit
from talos.talosctl.client.failure import find_exit
from talos.talosctl.client.flags import GROUPS
from talos.talosctl.client.health import SessionCalls

_LABEL = "@label="
_ROLES = ("@controlplane", "@workers")


async def resolve_nodes(target: Target) -> Target:
    """The target with addresses in place of groups and members' names; UserError when a group is empty."""
    for node in target.nodes:
        _check_group(node)
    has_group = any(node.startswith("@") for node in target.nodes)
    try:
        async with open_session(target) as session:
            members = await SessionCalls(session).specs("", kinds.MEMBER)
            found = [await _find(session, members, node) for node in target.nodes]
    except RpcError as error:
        if not has_group:
            return target  # the command itself reports what is wrong
        raise CommandError(describe(error, target), code=find_exit(error)) from error
    return replace(target, nodes=tuple(dict.fromkeys(node for nodes in found for node in nodes)))


def _check_group(node: str) -> None:
    """CommandError for what begins as a group and is none: no node need be called."""
    is_label = node.startswith(_LABEL) and node != _LABEL
    if node.startswith("@") and not is_label and node not in ("@all", *_ROLES):
        text = f"{node}: is no group of nodes (use {', '.join(GROUPS)}KEY or …KEY=VALUE)"
        raise CommandError(text, code=Exit.USAGE)


async def _find(session: Session, members: Sequence[MemberSpec], node: str) -> Sequence[str]:
    if not node.startswith("@"):
        named = [find_address(member) for member in members if member.hostname.lower() == node.lower()]
        return [address for address in named if address] or [node]
    chosen = [address for member in _choose(members, node) if (address := find_address(member))]
    if node.startswith(_LABEL):
        labels = await asyncio.gather(*(_read_labels(session, one) for one in chosen))
        key, has_value, value = node.removeprefix(_LABEL).partition("=")
        chosen = [
            one
            for one, own in zip(chosen, labels, strict=True)
            if key in own and (not has_value or own[key] == value)
        ]
    if not chosen:
        raise UserError("has no node", where=node, hint="`talosctl get members` lists the nodes")
    return chosen


def _choose(members: Sequence[MemberSpec], group: str) -> Sequence[MemberSpec]:
    """The members of a group by role, ordered by name; for a label all of them."""
    ordered = sorted(members, key=lambda member: member.hostname)
    if group not in _ROLES:
        return ordered
    is_wanted = group == "@controlplane"
    return [member for member in ordered if is_control_plane(member.machine_type) is is_wanted]


async def _read_labels(session: Session, node: str) -> Mapping[str, str]:
    """A node's labels in Kubernetes, none where it has not registered; RpcError."""
    for status in await SessionCalls(session).specs(node, kinds.NODE_STATUS):
        return status.labels
    return {}
