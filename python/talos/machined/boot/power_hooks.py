"""What the sequences that end this boot call outside of PID 1's own services, mounts and disks."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

type Hook = Callable[[], Awaitable[None]]
"""Fails with RpcError or OSError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerHooks:
    """One call for each step, in the order of the steps."""

    drain: Hook
    """Move the node's pods elsewhere."""
    resign: Hook
    """Give up what this node was elected for."""
    shut_kubelet_down: Hook
    """Have the kubelet end its pods, in the order of their priorities, and then itself."""
    stop_pods: Hook
    """End the pods that are left."""
    leave_etcd: Hook
    """Before a graceful reset: remove this node's member of etcd."""
    forget_state_keys: Hook
    """In a reset of STATE: remove the keys of META that belong to it."""
    resume: Hook
    """Begin anew what a sequence ended that does not end the machine."""
