"""The sequences that end a boot, as the API sees them."""

import enum
from collections.abc import Awaitable, Callable
from typing import Protocol

from talos.disks.reset import ResetPlan
from talos.system.logging import Log


class RebootMode(enum.IntEnum):
    """How to reboot; the numbers are those of ``RebootRequest.Mode``."""

    DEFAULT = 0
    POWERCYCLE = 1
    FORCE = 2


class SequenceLockedError(Exception):
    """Another sequence runs. ``actor`` is the id of the refused one, whose events have that already."""

    def __init__(self, actor: str) -> None:
        super().__init__(actor)
        self.actor = actor


class NodeLock(Protocol):
    """What lets one control plane node be down at a time."""

    async def take(self, report: Callable[[str], None]) -> None:
        """Take it, or prolong that; RpcError when the others can't do without this node now."""
        ...

    async def keep(self, log: Log) -> None:
        """Prolong it until cancelled."""
        ...

    async def release(self) -> None:
        """Give it back."""
        ...


class Power(Protocol):
    """The sequences that end this boot. Each runs in the background."""

    @property
    def is_locked(self) -> bool:
        """Whether a sequence runs that does not give way to another one."""
        ...

    def reboot(
        self,
        *,
        mode: RebootMode = RebootMode.DEFAULT,
        is_upgrade: bool = False,
        lock: NodeLock | None = None,
    ) -> str:
        """Start to reboot; the actor id (UUID) under which its events appear. SequenceLockedError.

        ``is_upgrade``: into another release, so pods move elsewhere before. ``lock`` is held meanwhile, and
        given back by a node that stays up because it can't take it anew when its services are to stop.
        """
        ...

    def shutdown(self, *, force: bool = False) -> str:
        """Start to shut down, taking over from any other sequence; the actor id likewise."""
        ...

    def reset(self, plan: ResetPlan) -> str:
        """Start to erase what a plan names; the actor id. SequenceLockedError."""
        ...

    def upgrade(
        self,
        install: Callable[[], Awaitable[None]],
        *,
        staged: bool,
        lock: NodeLock | None = None,
        stay: Callable[[], None] = lambda: None,
    ) -> str:
        """Start to stop services, install and reboot, or with ``staged`` to install first; the actor id.

        ``lock`` as in :meth:`reboot`; ``stay`` is called by a node that stays up. SequenceLockedError.
        """
        ...
