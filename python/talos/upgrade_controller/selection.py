"""Which members of the cluster a policy is for: by role, by hostname, by their labels in Kubernetes.

Labels are read from the nodes themselves, so that a policy in a file needs no access to Kubernetes.
"""

import asyncio
from collections.abc import Mapping
from fnmatch import fnmatchcase

from talos.api.definitions.cluster_pb2 import MemberSpec
from talos.api.machine_types import is_control_plane
from talos.fleet.calls import FleetCalls
from talos.health.conditions import find_address
from talos.resource import kinds
from talos.system.errors import UserError
from talos.upgrade_controller.config import LabelRule, NodesSection


async def select_nodes(calls: FleetCalls, chosen: NodesSection) -> list[str]:
    """The addresses of the members that are selected, ordered by hostname; UserError, RpcError."""
    members = sorted(await calls.specs("", kinds.MEMBER), key=lambda one: one.hostname)
    found = {
        address: member.hostname
        for member in members
        if is_named(member, chosen) and (address := find_address(member))
    }
    if not (chosen.match_labels or chosen.match_expressions):
        return list(found)
    labels = await asyncio.gather(*(read_labels(calls, *node) for node in found.items()))
    return [node for node, own in zip(found, labels, strict=True) if is_labelled(own, chosen)]


def is_named(member: MemberSpec, chosen: NodesSection) -> bool:
    """Whether a member's role and hostname are among those that are selected."""
    name, role = member.hostname, "controlplane" if is_control_plane(member.machine_type) else "worker"
    return (
        role in chosen.roles
        and any(fnmatchcase(name, pattern) for pattern in chosen.hostnames)
        and not any(fnmatchcase(name, pattern) for pattern in chosen.exclude)
    )


async def read_labels(calls: FleetCalls, node: str, hostname: str) -> Mapping[str, str]:
    """A node's labels in Kubernetes. UserError before they are known: the node may be one that is meant."""
    for status in await calls.specs(node, kinds.NODE_STATUS):
        return status.labels
    hint = "select nodes by labels only where Kubernetes runs on all of them"
    raise UserError(f"{hostname} has not registered with Kubernetes", where="nodes", hint=hint)


def is_labelled(labels: Mapping[str, str], chosen: NodesSection) -> bool:
    """Whether labels satisfy every condition."""
    wanted = chosen.match_labels or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _satisfies(labels, rule) for rule in chosen.match_expressions
    )


def _satisfies(labels: Mapping[str, str], rule: LabelRule) -> bool:
    # A key that is missing is in no set of values, as in Kubernetes.
    match rule.operator:
        case "In":
            return labels.get(rule.key) in rule.values
        case "NotIn":
            return labels.get(rule.key) not in rule.values
        case "Exists":
            return rule.key in labels
        case _:
            return rule.key not in labels
