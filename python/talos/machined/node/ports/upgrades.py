"""Releases, trials and their lock, as the API and the controllers see them."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack
from pathlib import Path
from typing import Protocol

from talos.machined.node.ports.power import NodeLock
from talos.resource.state import State
from talos.system.logging import Log
from talos.upgrade.release.layer import Release
from talos.upgrade.session import Installer
from talos.upgrade.slots.port import Report, Slots
from talos.upgrade.state import Upgrade


class UpgradeLock(NodeLock, Protocol):
    """The lock of upgrades in etcd, as this boot takes it."""

    async def take_for_rollback(self, log: Log) -> None:
        """Take it whatever etcd's members are; RpcError while another node has it."""
        ...

    async def hold_on_trial(self) -> None:
        """Take it, or prolong that, for a trial; RpcError, OSError."""
        ...

    async def release_earlier(self) -> None:
        """Give back what earlier boots have taken, and trials; RpcError, OSError."""
        ...


class Trial(Protocol):
    """The upgrade that this boot may be the trial of, for those who judge it."""

    current: Upgrade
    """The state of the upgrade."""

    @property
    def cmdline(self) -> str:
        """The kernel's command line."""
        ...

    @property
    def has_begun(self) -> bool:
        """Whether META is read, and with it known what this boot is."""
        ...

    @property
    def is_guarded(self) -> bool:
        """Whether a watchdog was armed: for a system on trial, or one whose last start was not confirmed."""
        ...

    @property
    def needs_probes(self) -> bool:
        """Whether the config's trial checks are probed now."""
        ...

    @property
    def running(self) -> str:
        """The slot that runs; empty where no slot was booted."""
        ...

    @property
    def fallback(self) -> str:
        """Why another slot than the default runs; empty when the default does."""
        ...

    def listen(self, listener: Callable[[], None]) -> None:
        """A callback after every change."""
        ...

    async def confirm(self) -> None:
        """This system has come up. UserError, OSError."""
        ...

    async def bless(self) -> None:
        """Make the system on trial the default. UserError, OSError; then it is still on trial."""
        ...

    async def revert(self, reason: str) -> None:
        """End the trial, unless it has its verdict. UserError, OSError."""
        ...

    async def settle_keys(self) -> bool:
        """Have volumes keep the keys that this system needs; False while an upgrade has no verdict.

        UserError, OSError.
        """
        ...


class Upgrades(Trial, Protocol):
    """What the API does with releases."""

    @property
    def state(self) -> State:
        """The node's State."""
        ...

    @property
    def slots(self) -> Slots:
        """Where systems are kept."""
        ...

    @property
    def keys(self) -> Path:
        """The folder of the keys that sign releases."""
        ...

    @property
    def log(self) -> Log:
        """The log of upgrades that no client watches."""
        ...

    def claim(self) -> AbstractContextManager[ExitStack]:
        """For one call that installs at a time; UserError. With ``pop_all`` it lasts for the whole boot."""
        ...

    async def prepare(
        self, release: Release, *, force: bool = False, report: Report | None = None
    ) -> Installer:
        """What writes a release to the other slot and has it booted once.

        UserError when it must not, RpcError while the config's trial checks don't hold. What is waited for
        is reported, to the log where there is no ``report``.
        """
        ...

    def lock(self) -> AbstractAsyncContextManager[None]:
        """For a caller that writes a system to a disk; UserError when another one does."""
        ...

    async def roll_back(self) -> None:
        """Have the system in the other slot booted once; what is staged or on trial just ends.

        UserError, OSError.
        """
        ...
