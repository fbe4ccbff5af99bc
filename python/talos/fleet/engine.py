"""The upgrade of many nodes: control plane nodes one at a time, then workers, stopping at the first failure.

A node is done when it runs the release, is off its trial, and is as healthy as before. What is under way when
a node fails is seen through to its end, and nothing new begins.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field

from talos.api.common.common_pb2 import ContainerdInstance, ContainerdNamespace, ContainerDriver
from talos.api.machine import machine_pb2
from talos.api.rpc import Code, RpcError, format_reason
from talos.fleet import calls as node_calls
from talos.fleet.calls import DEPENDENCY, LOST, FleetCalls, InstallerError, NodeStatus, repeat_lost
from talos.fleet.health import find_machine_problems, find_problems
from talos.fleet.plan import MAX_CONCURRENT, FleetLimits, Plan
from talos.fleet.progress import FleetProgress, NodeProgress, NodeStep, Watcher
from talos.system.errors import UserError
from talos.upgrade.state import BUSY, PENDING, Phase

TIMEOUT = 1800.0
"""Seconds for the installation of one node, and again from its reboot until it is healthy."""
PROBLEM_TIMEOUT = 60.0
"""Seconds for what may pass: a call without an answer, another node that is unhealthy."""
REQUEST_RETRY_DELAY = 10.0
"""Seconds after which a node that goes on has not received the call to reboot, if that had no answer."""


class FailedError(Exception):
    """A node was not upgraded; the text is the reason."""


class StoppedError(Exception):
    """Nothing new begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeOptions:
    """What to do with each node. ``old`` is the call of older nodes, which alone has some of the options.

    ``gate`` returns why no further node may begin now, empty when one may. ``around_boot`` is entered before
    a node gets the call that boots it, and left once it is healthy again.
    """

    image: str
    version: str = ""
    containerd: ContainerdInstance = field(
        default_factory=lambda: ContainerdInstance(
            driver=ContainerDriver.CONTAINERD, namespace=ContainerdNamespace.NS_SYSTEM
        )
    )
    mode: machine_pb2.RebootRequest.Mode = machine_pb2.RebootRequest.DEFAULT
    old: machine_pb2.UpgradeRequest | None = None
    timeout: float = TIMEOUT
    gate: Callable[[], str] = str
    around_boot: Callable[[str], AbstractAsyncContextManager[object]] = nullcontext


@dataclass(slots=True, kw_only=True)
class Fleet:
    """One upgrade of many nodes."""

    calls: FleetCalls
    plan: Plan
    options: UpgradeOptions
    limits: FleetLimits
    watcher: Watcher
    progress: FleetProgress = field(init=False)
    _has_failed: bool = False
    _working: asyncio.Semaphore = field(init=False)
    _unavailable: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        rows = [
            NodeProgress(
                node=status.node,
                hostname=status.hostname,
                is_control_plane=status.is_control_plane,
                before=status.version,
            )
            for status in self.plan.nodes
        ]
        options = self.options
        self.progress = FleetProgress(
            image=options.image, version=options.version, rows=rows, watcher=self.watcher
        )
        self._working = asyncio.Semaphore(self.limits.parallel)
        self._unavailable = asyncio.Semaphore(self.limits.unavailable)

    async def run(self) -> FleetProgress:
        """Upgrade all nodes, as far as it goes."""
        for row in self.progress.rows:
            if self.options.version and row.before == self.options.version:
                row.after = row.before
                self.progress.move(row, NodeStep.CURRENT)
        rows = {row.node: row for row in self.progress.rows if row.step is not NodeStep.CURRENT}
        try:
            for status in self._left(self.plan.control_plane, rows):
                await self._upgrade(status, rows[status.node])
            workers = self._left(self.plan.workers, rows)
            await asyncio.gather(*(self._upgrade(status, rows[status.node]) for status in workers))
        except asyncio.CancelledError:
            self._fail("interrupted")
            for row in rows.values():
                if row.step.is_active:
                    self.progress.move(
                        row, NodeStep.FAILED, f"its end was not waited for, it was {row.step.value}"
                    )
            raise
        return self.progress

    @staticmethod
    def _left(statuses: Sequence[NodeStatus], rows: dict[str, NodeProgress]) -> list[NodeStatus]:
        return [status for status in statuses if status.node in rows]

    def _fail(self, reason: str) -> None:
        self._has_failed = True
        self.progress.reason = self.progress.reason or reason

    def _check_gate(self) -> None:
        """Whether another node may begin. One that is installed goes on: no later reboot is to try it."""
        self.progress.reason = self.progress.reason or self.options.gate()
        if self.progress.reason:
            raise StoppedError

    async def _upgrade(self, status: NodeStatus, row: NodeProgress) -> None:
        """Upgrade one node; its failure is the fleet's reason to stop."""
        options = self.options
        try:
            async with self._working:
                self._check_gate()
                if options.old is None:
                    async with asyncio.timeout(options.timeout):
                        await self._install(status, row)
                if self._unavailable.locked():
                    step = NodeStep.STAGED if options.old is None else NodeStep.NOT_STARTED
                    self.progress.move(row, step, "waits until another node is back")
                async with self._unavailable:
                    await self._check_others(status, row)
                    async with options.around_boot(status.node), asyncio.timeout(options.timeout):
                        await self._boot(status, row)
        except StoppedError:
            return
        except (FailedError, RpcError, UserError) as error:
            reason = format_reason(error)
            row.is_untouched = isinstance(error, InstallerError) and error.exit_code == DEPENDENCY
        except TimeoutError:
            detail = f", {row.detail}" if row.detail else ""
            reason = f"not done after {options.timeout:g} s: {row.step.value}{detail}"
        else:
            return
        row.is_untouched = row.is_untouched or row.step is NodeStep.PULLING
        self._fail(f"{row.name}: {reason}")
        self.progress.move(row, NodeStep.FAILED, reason)

    async def _check_others(self, status: NodeStatus, row: NodeProgress) -> None:
        """Stop when this node would be one too many that is down: others may be for reasons of their own."""
        if self._has_failed:
            raise StoppedError
        peers = self.plan.control_plane if status.is_control_plane else self.plan.workers
        limit = 1 if status.is_control_plane else self.limits.unavailable
        rows = {one.node: one for one in self.progress.rows}
        end = asyncio.get_running_loop().time() + PROBLEM_TIMEOUT
        while True:
            idle = [peer for peer in peers if peer is not status and not rows[peer.node].is_unavailable]
            free = asyncio.Semaphore(MAX_CONCURRENT)
            unhealthy = list(
                filter(None, await asyncio.gather(*(self._find_new(peer, free) for peer in idle)))
            )
            if not unhealthy or len(peers) - 1 - len(idle) + len(unhealthy) < limit:
                return
            if asyncio.get_running_loop().time() > end:
                self._fail(f"{row.name} would be one unavailable node too many: {'; '.join(unhealthy)}")
                raise StoppedError
            self.progress.move(row, row.step, f"waits for {unhealthy[0]}")
            await asyncio.sleep(node_calls.POLL_INTERVAL)

    async def _find_new(self, peer: NodeStatus, free: asyncio.Semaphore) -> str:
        """What is the matter with a node that was not before, empty when it is healthy."""
        known = self.plan.problems.get(peer.node, {})
        async with free:
            try:
                found = await find_machine_problems(self.calls, peer.node)
            except RpcError as error:
                return f"{peer.name}: {error.reason}"
        new = next((text for about, text in found.items() if about not in known), "")
        return f"{peer.name}: {new}" if new else ""

    async def _install(self, status: NodeStatus, row: NodeProgress) -> None:
        options = self.options

        def report(text: str) -> None:
            self.progress.move(row, row.step, text)

        async def pull() -> str:
            return await node_calls.pull_image(
                self.calls, status.node, options.containerd, options.image, report
            )

        async def install() -> None:
            await node_calls.install_image(self.calls, status.node, options.containerd, name, report)

        self.progress.move(row, NodeStep.PULLING)
        name = await repeat_lost(pull, PROBLEM_TIMEOUT, report)
        self.progress.move(row, NodeStep.INSTALLING)
        await repeat_lost(install, PROBLEM_TIMEOUT, report)
        self.progress.move(row, NodeStep.STAGED)

    async def _boot(self, status: NodeStatus, row: NodeProgress) -> None:
        if self.options.old is not None:
            self.progress.move(row, NodeStep.INSTALLING, "by the call of older nodes")
        acknowledged = await self._request_boot(status.node)
        self.progress.move(row, NodeStep.REBOOTING)
        now = await self._wait_for_verdict(status, row, acknowledged=acknowledged)
        row.after = now.version
        await self._wait_until_healthy(now, row)
        self.progress.move(row, NodeStep.DONE)

    async def _request_boot(self, node: str, *, is_repeated: bool = False) -> bool:
        """Have a node boot the release; False when it is not known to do so.

        The answer may be lost: the node is faster than it. A repetition changes nothing on a node that
        reboots, and is refused by one that still looks at the release, which may end with the lost call.
        """
        old = self.options.old
        try:
            if old is None:
                await node_calls.reboot_node(self.calls, node, self.options.mode)
            else:
                await node_calls.upgrade_old(self.calls, node, old)
        except RpcError as error:
            if error.code in LOST:
                return False
            if is_repeated and error.message == BUSY:
                return False
            raise
        return True

    async def _await_answer(self, node: str, row: NodeProgress) -> NodeStatus:
        """NodeStatus at a node until it answers; the row shows why it doesn't."""
        while True:
            await asyncio.sleep(node_calls.POLL_INTERVAL)
            try:
                return await node_calls.fetch_status(self.calls, node)
            except RpcError as error:
                if error.code in (Code.PERMISSION_DENIED, Code.UNAUTHENTICATED):
                    raise
                text = f"does not answer: {error.reason}"
                self.progress.move(row, row.step, text)

    async def _wait_for_verdict(
        self, before: NodeStatus, row: NodeProgress, *, acknowledged: bool
    ) -> NodeStatus:
        """Wait until the node has booted and is off its trial; FailedError when it runs what it ran.

        ``acknowledged`` is whether it has confirmed that. Only in the boot of ``before`` is it repeated.
        """
        clock = asyncio.get_running_loop().time
        requested = clock()
        while True:
            now = await self._await_answer(before.node, row)
            state = now.upgrade
            if now.boot in {"", before.boot}:
                if now.is_running and not acknowledged and clock() - requested >= REQUEST_RETRY_DELAY:
                    self.progress.move(row, row.step, "called again")
                    acknowledged, requested = await self._request_boot(before.node, is_repeated=True), clock()
                continue
            if state is None:
                continue
            if state.phase in PENDING:
                self.progress.move(row, NodeStep.TRIAL)
                continue
            row.after = now.version
            # A release may have the version that ran before.
            if state.phase is Phase.REVERTED and (state != before.upgrade or now.version != state.version):
                raise FailedError(f"{state.version} was reverted, {now.version} runs: {state.reason}")
            if state == before.upgrade and now.version == before.version:
                # A node without a record of its own, or one that wrote nothing.
                raise FailedError(f"it came back with {now.version}, as before")
            if self.options.version and now.version != self.options.version:
                raise FailedError(
                    f"it runs {now.version}, not {self.options.version} which is the image's tag"
                )
            return now

    async def _wait_until_healthy(self, now: NodeStatus, row: NodeProgress) -> None:
        known = self.plan.problems.get(now.node, {})
        self.progress.move(row, NodeStep.RECOVERING)
        while True:
            try:
                found = await find_problems(self.calls, now.node, is_control_plane=now.is_control_plane)
                found = {about: text for about, text in found.items() if about not in known}
            except RpcError as error:
                found = {"": error.reason}
            if not found:
                return
            text = next(iter(found.values()))
            if text != row.detail:
                self.progress.move(row, NodeStep.RECOVERING, text)
            await asyncio.sleep(node_calls.POLL_INTERVAL)
