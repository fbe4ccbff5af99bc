"""Where a call goes: to this node, to another one, or to several (as upstream)."""

import functools
import ipaddress
import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from talos.api.metadata import NODE, NODES, PROXY_FROM
from talos.api.methods import methods, split_path
from talos.api.rpc import Code, RpcError
from talos.rpc.protocol import Metadata

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,252})")


@dataclass(frozen=True, slots=True)
class Local:
    """This node answers."""


@dataclass(frozen=True, slots=True)
class OneToOne:
    """Another node answers."""

    target: str


@dataclass(frozen=True, slots=True)
class OneToMany:
    """Several nodes answer, and their answers are merged."""

    targets: tuple[str, ...]


type Route = Local | OneToOne | OneToMany


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """What routing depends on beside the call."""

    enabled: bool
    """False in maintenance: everything is answered here."""

    may_forward: bool
    """Whether this node has a client certificate for other nodes; workers have none."""

    is_own: Callable[[str], bool]
    """Whether a target is an address or a name of this node."""


@functools.cache
def _one_to_many_services() -> frozenset[str]:
    """Services whose calls several nodes may answer at once; upstream goes by the service, too."""
    return frozenset(split_path(path)[0] for path, method in methods().items() if method.one_to_many)


def choose_route(method: str, metadata: Metadata, routing: Routing) -> Route:
    """Where a call goes; RpcError when that is not possible or not allowed."""
    nodes = values_of(metadata, NODES)
    node = values_of(metadata, NODE)
    if not routing.enabled or values_of(metadata, PROXY_FROM):
        return Local()
    if nodes:
        if split_path(method)[0] not in _one_to_many_services():
            raise RpcError(Code.INVALID_ARGUMENT, f"one-2-many proxying is not supported for method {method}")
        for target in nodes:
            _check_target(target, routing)
        return OneToMany(nodes)
    if not node:
        return Local()
    target, *others = node
    if others:
        raise RpcError(Code.INVALID_ARGUMENT, "node metadata must be single-valued")
    if routing.is_own(target):
        return Local()
    _check_target(target, routing)
    return OneToOne(target)


def values_of(metadata: Metadata, key: str) -> tuple[str, ...]:
    """All values of a metadata key."""
    return tuple(value for name, value in metadata if name == key and isinstance(value, str))


def _check_target(target: str, routing: Routing) -> None:
    if not is_valid_target(target):
        raise RpcError(Code.INTERNAL, f"invalid target {json.dumps(target)}")
    if not routing.may_forward and not routing.is_own(target):
        raise RpcError(Code.PERMISSION_DENIED, "no request forwarding")


def is_valid_target(target: str) -> bool:
    """Whether it is an address or a name, without a port."""
    try:
        ipaddress.ip_address(target)
    except ValueError:
        return _HOST.fullmatch(target) is not None
    return True
