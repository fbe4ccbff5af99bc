"""Control plane nodes change their static pods one after another.

A pod that serves is replaced only while the node holds a lock in etcd, which it keeps until its pods are
ready again. One that isn't ready serves no client: it is replaced at once, so a mistake is always mended.
"""

import enum
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import trio
from google.protobuf.struct_pb2 import Struct

from talos.api.definitions.k8s_pb2 import StaticPodStatusSpec
from talos.api.rpc import RpcError
from talos.config.static_pods import API_SERVER
from talos.etcd.client import EtcdClient
from talos.etcd.lock import STATIC_PODS, LockedError, make_lease, release_all, take_lock
from talos.resource.objects import is_ready, to_plain
from talos.resource.resource import Resource

POD_VERSION = "talos.dev/pod-version"
"""Annotation of a StaticPodStatus: the version of the pod whose status it is."""
POD_UID = "talos.dev/pod-uid"
"""Another one: what that pod's control groups are named after."""
OWN_ANNOTATIONS = "talos.dev/"

# All in seconds.
LEASE_TTL = 60
"""After which the turn of a node that is gone ends."""
KEEP_ALIVE_INTERVAL = 15.0  # seconds
"""Between two signs of life of the node that has the turn."""
ETCD_TIMEOUT = 5.0  # seconds
ETCD_DEADLINE = 30.0  # seconds
"""Without an answer of etcd, after which a node goes on alone: its API server has no data either."""
KUBELET_TIMEOUT = 300.0  # seconds
"""For the kubelet to take what it is offered; then a node gives its turn back."""


class RolloutProgress(enum.Enum):
    """How far the kubelet is with the version that it is offered."""

    UNSEEN = enum.auto()
    """It has shown no version of the pod."""
    OUTDATED = enum.auto()
    """It shows another version."""
    STARTING = enum.auto()
    READY = enum.auto()


@dataclass(frozen=True, slots=True)
class PodChange:
    """One static pod: as it is to be, as the kubelet is offered it, and how far that is."""

    wanted: Struct
    offered: Struct | None
    progress: RolloutProgress

    @property
    def is_pending(self) -> bool:
        """Whether the kubelet is offered another version than the wanted one."""
        return self.offered is not None and self.offered != self.wanted

    @property
    def may_serve(self) -> bool:
        """Whether a client may notice when the pod is replaced."""
        return self.progress in {RolloutProgress.OUTDATED, RolloutProgress.READY}


type Changes = Mapping[str, PodChange]


def make_version(pod: Mapping[str, Any]) -> str:
    """What distinguishes versions of a pod; the same in the kubelet's copy, which has defaults filled in."""
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    own = {name: value for name, value in annotations.items() if name.startswith(OWN_ANNOTATIONS)}
    containers: Sequence[Mapping[str, Any]] = pod["spec"].get("containers") or ()
    programs = [[one.get(key) or "" for key in ("name", "image", "command", "args")] for one in containers]
    content = json.dumps([own, programs], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def make_status_id(pod: Mapping[str, Any], node: str) -> str:
    """The id of the status of a pod that a node's kubelet is offered."""
    metadata = pod["metadata"]
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}-{node}"


def find_progress(offered: Struct | None, status: Resource[StaticPodStatusSpec] | None) -> RolloutProgress:
    """How far the kubelet is, from the status that it gave last."""
    if offered is None or status is None:
        return RolloutProgress.UNSEEN
    if status.metadata.annotations.get(POD_VERSION) != make_version(to_plain(offered)):
        return RolloutProgress.OUTDATED
    return RolloutProgress.READY if is_ready(to_plain(status.spec.pod_status)) else RolloutProgress.STARTING


def choose(changes: Changes, *, has_lock: bool) -> list[str]:
    """Which pods are offered in their wanted version now.

    The controller manager and the scheduler end without an API server, so their changes come after its own.
    """
    server = changes.get(API_SERVER)
    is_served = server is not None and not server.is_pending and server.progress is RolloutProgress.READY
    return [
        name
        for name, one in changes.items()
        if one.offered is None
        or (one.is_pending and (has_lock or not one.may_serve) and (name == API_SERVER or is_served))
    ]


def is_underway(changes: Changes, *, seconds: float) -> bool:
    """Whether a pod is not ready, or not seen by the kubelet, which was last offered one ``seconds`` ago."""
    waiting = (
        {RolloutProgress.UNSEEN, RolloutProgress.OUTDATED}
        if seconds < KUBELET_TIMEOUT
        else set[RolloutProgress]()
    )
    return any(one.progress in {RolloutProgress.STARTING, *waiting} for one in changes.values())


class Store(Protocol):
    """Where the lock is."""

    def local(self) -> AbstractAsyncContextManager[EtcdClient]:
        """A client of this node's member of etcd."""
        ...


class RolloutLock:
    """This node's turn among the control plane nodes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lease = make_lease()
        self._may_hold = True  # as the process before this one did
        self._kept = -math.inf
        self._silent_since: float | None = None
        self.holder = ""
        """The node that has the turn, if it is another one."""

    async def take(self, node: str) -> str:
        """Take the turn, or keep it. Why the node has to wait for it; empty when it need not."""
        now = trio.current_time()
        if self._may_hold and now - self._kept < KEEP_ALIVE_INTERVAL:
            return ""
        try:
            with trio.fail_after(ETCD_TIMEOUT):
                async with self._store.local() as client:
                    await take_lock(client, STATIC_PODS, node, self._lease, LEASE_TTL)
        except LockedError as error:
            self._may_hold, self._silent_since, self.holder = False, None, error.holder
            return f"{error.holder} changes its own and is not ready"
        except (RpcError, OSError, trio.TooSlowError) as error:
            self.holder = ""
            if self._silent_since is None:
                self._silent_since = now
            text = getattr(error, "message", "") or str(error) or "no answer"
            return "" if now - self._silent_since > ETCD_DEADLINE else f"etcd: {text}"
        self._may_hold, self._kept, self._silent_since, self.holder = True, now, None, ""
        return ""

    async def release(self, node: str) -> None:
        """Let the next node go on; without etcd's answer it does when the lease ends."""
        if not self._may_hold:
            return
        self._may_hold, self._kept = False, -math.inf
        with trio.move_on_after(ETCD_TIMEOUT):
            try:
                async with self._store.local() as client:
                    await release_all(client, STATIC_PODS, node)
            except (RpcError, OSError):
                pass
