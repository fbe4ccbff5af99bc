"""The upgrade of one node: its image is installed, it reboots, and its trial has a verdict."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.empty_pb2 import Empty

from talos.api.common.common_pb2 import ContainerdInstance
from talos.api.machine.lifecycle_pb2 import (
    InstallArtifactsSource,
    LifecycleServiceUpgradeRequest,
    LifecycleServiceUpgradeResponse,
)
from talos.api.machine.machine_pb2 import (
    Reboot,
    RebootRequest,
    RebootResponse,
    Upgrade,
    UpgradeRequest,
    UpgradeResponse,
    VersionResponse,
)
from talos.api.rpc import Code, RpcError
from talos.client.session import Session
from talos.fleet.calls import read_upgrade
from talos.talosctl.client.command import parts
from talos.talosctl.client.fleet_calls import FreshCalls
from talos.talosctl.client.images import pull_shown, send_archive
from talos.talosctl.output import console
from talos.upgrade.state import PENDING, Phase
from talos.upgrade.state import Upgrade as UpgradeState

POLL_INTERVAL = 2.0
"""Seconds between two checks of a node that is on trial."""
STATUS_TIMEOUT = 10.0
"""Seconds for one check."""
type _Running = tuple[str, UpgradeState | None]
"""The version that a node runs, and its record of the last upgrade."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUpgrade:
    """What is done with each node, in the order of the methods."""

    image: str
    archive: Path | None
    """The file that the image is in, which is sent; None for one in a registry."""
    containerd: ContainerdInstance
    """Where the image is kept."""
    old: UpgradeRequest | None
    """The call of older nodes, which installs and reboots."""
    mode: RebootRequest.Mode
    reboots: bool
    seconds: float
    """For the verdict; 0 for no limit."""
    _names: dict[str, str] = field(default_factory=dict[str, str])
    """Of the images that were sent, by node."""
    _before: dict[str, _Running] = field(default_factory=dict[str, _Running])

    async def install(self, session: Session, node: str) -> bool:
        """Install the image, unless the call of older nodes does; whether the node is to be rebooted."""
        if self.archive:
            self._names[node] = await send_archive(session, node, self.containerd, self.archive)
        if self.old is not None:
            self._before[node] = await _read_version(session, node), await _read_state(session, node)
            return True
        name = self._names.get(node) or await pull_shown(session, node, self.containerd, self.image)
        await _install(session, node, self.containerd, name)
        return self.reboots

    async def reboot(self, session: Session, node: str) -> str:
        """Have the node reboot; the id by which its events are known."""
        if self.old is not None:
            request = UpgradeRequest()
            request.CopyFrom(self.old)
            request.image = self._names.get(node, self.image)
            upgraded = await session.unary(node, "/machine.MachineService/Upgrade", request, UpgradeResponse)
            return next((part.actor_id for part in parts(upgraded, Upgrade)), "")
        reboot = RebootRequest(mode=self.mode)
        reply = await session.unary(node, "/machine.MachineService/Reboot", reboot, RebootResponse)
        return next((part.actor_id for part in parts(reply, Reboot)), "")

    async def wait_for_verdict(self, session: Session, node: str) -> None:
        """Wait until the new system is off its trial; RpcError when it was reverted. Others have no trial.

        A node that runs what it ran before the call of older nodes was not upgraded: RpcError.
        """
        shown = ""
        try:
            async with asyncio.timeout(self.seconds or None):
                while (state := await _read_state(session, node)) is None or state.phase in PENDING:
                    if state is not None and state.phase.value != shown:
                        shown = state.phase.value
                        console.note(f"{node}: {state.version} in slot {state.slot}: {shown}")
                    await asyncio.sleep(POLL_INTERVAL)
        except TimeoutError as error:
            raise RpcError(Code.DEADLINE_EXCEEDED, f"no verdict after {self.seconds:g} s") from error
        if state.phase is Phase.REVERTED:
            text = (
                f"the upgrade to {state.version} was reverted, {state.previous_version} runs: {state.reason}"
            )
            raise RpcError(Code.ABORTED, text)
        before = self._before.get(node)
        if before and before == (await _read_version(session, node), state):
            raise RpcError(Code.ABORTED, f"it came back with {before[0]}, as before: nothing was installed")
        if state.phase is Phase.BLESSED:
            console.note(f"{node}: {state.version} is the default from now on")


async def _install(session: Session, node: str, containerd: ContainerdInstance, name: str) -> None:
    request = LifecycleServiceUpgradeRequest(
        containerd=containerd, source=InstallArtifactsSource(image_name=name)
    )
    path = "/machine.LifecycleService/Upgrade"
    async with session.stream(node, path, request, LifecycleServiceUpgradeResponse) as replies:
        async for reply in replies:
            progress = reply.progress
            if progress.WhichOneof("response") == "exit_code":
                if progress.exit_code:
                    raise RpcError(Code.ABORTED, f"the installer ended with exit code {progress.exit_code}")
            else:
                console.note(f"{node}: {progress.message.rstrip()}")


async def _read_version(session: Session, node: str) -> str:
    """The version that a node runs; RpcError."""
    path = "/machine.MachineService/Version"
    reply = await FreshCalls(session.target).unary(node, path, Empty(), VersionResponse)
    return reply.messages[0].version.tag if reply.messages else ""


async def _read_state(session: Session, node: str) -> UpgradeState | None:
    """The node's own record; None while it does not answer, or its META is not read yet."""
    try:
        async with asyncio.timeout(STATUS_TIMEOUT):
            return await read_upgrade(FreshCalls(session.target), node)
    except (RpcError, TimeoutError):
        return None
