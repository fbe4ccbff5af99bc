"""``talosctl upgrade``."""

import asyncio
from pathlib import Path

from google.protobuf.empty_pb2 import Empty

from talos.api.common.common_pb2 import ContainerdInstance, ContainerdNamespace, ContainerDriver
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
from talos.config.contract import INSTALLER_IMAGE
from talos.fleet.calls import read_upgrade
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client.command import parts
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.fleet_calls import FreshCalls
from talos.talosctl.client.power import WAIT_FLAGS, make_drainer, run_power
from talos.talosctl.client.select import select_target
from talos.talosctl.client_version import client_version
from talos.talosctl.commands.image import pull, send_archive
from talos.talosctl.output import console
from talos.upgrade.state import PENDING, Phase
from talos.upgrade.state import Upgrade as UpgradeState

NAMESPACES = {
    "system": ContainerdInstance(driver=ContainerDriver.CONTAINERD, namespace=ContainerdNamespace.NS_SYSTEM),
    "cri": ContainerdInstance(driver=ContainerDriver.CRI, namespace=ContainerdNamespace.NS_CRI),
}
LEGACY_FLAGS = ("force", "legacy", "preserve", "stage")
"""Each needs the call of older nodes; all but one are fields of it."""
FLEET_FLAGS = ("parallel", "max-unavailable", "output")
POLL_INTERVAL = 2.0
"""Seconds between two checks of a node that is on trial."""
STATUS_TIMEOUT = 10.0
"""Seconds for one check."""
type _Running = tuple[str, UpgradeState | None]
"""The version that a node runs, and its record of the last upgrade."""
BEFORE_REBOOT = (
    "it was not rebooted: its next reboot boots what is installed by now, rollback takes that back"
)
"""How an interrupt leaves a node."""
REBOOT_MODES = {"default": RebootRequest.DEFAULT, "powercycle": RebootRequest.POWERCYCLE}


def run_upgrade(invocation: Invocation) -> int:
    """Install an image into the other slot and boot it; of several nodes in an order."""
    flags = invocation.flags
    containerd, mode = _check(flags)
    archive = find_archive(flags.text("image"))
    old = make_old_request(flags, mode)
    if is_fleet(flags):
        # One node needs nothing of it.
        from talos.talosctl.client.fleet import run_fleet

        if archive:
            raise UserError(
                "is a file, which is sent to one node only", where="--image", hint="use a registry"
            )
        return run_fleet(invocation, containerd, REBOOT_MODES[mode], old)
    image = flags.text("image")
    names: dict[str, str] = {}
    before: dict[str, _Running] = {}

    async def act(session: Session, node: str) -> str:
        if old is not None:
            request = UpgradeRequest()
            request.CopyFrom(old)
            request.image = names.get(node, image)
            upgraded = await session.unary(node, "/machine.MachineService/Upgrade", request, UpgradeResponse)
            return next((part.actor_id for part in parts(upgraded, Upgrade)), "")
        reboot = RebootRequest(mode=REBOOT_MODES[mode])
        reply = await session.unary(node, "/machine.MachineService/Reboot", reboot, RebootResponse)
        return next((part.actor_id for part in parts(reply, Reboot)), "")

    async def install(session: Session, node: str) -> bool:
        if archive:
            names[node] = await send_archive(session, node, containerd, archive)
        if old is not None:
            before[node] = await _read_version(session, node), await _read_state(session, node)
            return True
        name = names.get(node) or await pull(session, node, containerd, image)
        await _install(session, node, containerd, name)
        return not flags.is_set("no-reboot")

    async def finish(session: Session, node: str) -> None:
        await _wait_for_verdict(session, node, before.get(node), seconds=flags.seconds("timeout"))

    return run_power(
        invocation,
        act,
        is_reboot=True,
        prepare=install,
        finish=finish,
        drainer=make_drainer(flags),
        before=BEFORE_REBOOT,
    )


def find_archive(image: str) -> Path | None:
    """The file that an image is, none for one in a registry; UserError for a file that is not there."""
    path = Path(image)
    if path.is_file():
        return path
    if image.startswith(("/", "./", "../", "~")) or path.suffix == ".tar":
        raise UserError(f"there is no file {image}", where="--image")
    return None


def make_old_request(flags: Flags, mode: str) -> UpgradeRequest | None:
    """The call of older nodes, None when no flag needs it."""
    if not any(flags.is_set(name) for name in LEGACY_FLAGS):
        return None
    legacy = {name: flags.is_set(name) for name in LEGACY_FLAGS if name != "legacy"}
    return UpgradeRequest(image=flags.text("image"), reboot_mode=mode.upper(), **legacy)


def is_fleet(flags: Flags) -> bool:
    """Whether several nodes are to be upgraded in an order, or one is to be shown as if it were several."""
    given = [f"--{name}" for name in FLEET_FLAGS if flags.is_given(name)]
    if flags.is_set("no-reboot") or not flags.is_set("wait"):
        if given:
            raise UserError("need a reboot that is waited for", where=", ".join(given))
        return False
    nodes = select_target(flags).nodes
    return bool(given) or len(nodes) > 1 or any(node.startswith("@") for node in nodes)


def _check(flags: Flags) -> tuple[ContainerdInstance, str]:
    """Where to keep the image, and how to reboot."""
    namespace, mode = flags.text("namespace"), flags.text("reboot-mode").lower()
    if namespace not in NAMESPACES:
        raise UserError(f'there is no namespace "{namespace}"', where="--namespace", hint="use system or cri")
    if mode not in REBOOT_MODES:
        hint = "use default or powercycle"
        raise UserError(f'"{mode}" is no way to reboot', where="--reboot-mode", hint=hint)
    if not flags.is_set("drain"):
        if flags.is_set("strict-drain"):
            raise UserError("is the opposite of --strict-drain", where="--drain=false", hint="leave out one")
        text = "the node itself moves its pods elsewhere, for up to five minutes"
        console.note(f"WARNING: --drain=false: no effect, {text}")
    return NAMESPACES[namespace], mode


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


async def _wait_for_verdict(session: Session, node: str, before: _Running | None, *, seconds: float) -> None:
    """Wait until the new system is off its trial; RpcError when it was reverted. Others have no trial.

    A node that runs what it ran ``before``, if that is known, was not upgraded: RpcError.
    """
    shown = ""
    try:
        async with asyncio.timeout(seconds or None):
            while (state := await _read_state(session, node)) is None or state.phase in PENDING:
                if state is not None and state.phase.value != shown:
                    shown = state.phase.value
                    console.note(f"{node}: {state.version} in slot {state.slot}: {shown}")
                await asyncio.sleep(POLL_INTERVAL)
    except TimeoutError as error:
        raise RpcError(Code.DEADLINE_EXCEEDED, f"no verdict after {seconds:g} s") from error
    if state.phase is Phase.REVERTED:
        text = f"the upgrade to {state.version} was reverted, {state.previous_version} runs: {state.reason}"
        raise RpcError(Code.ABORTED, text)
    if before and before == (await _read_version(session, node), state):
        raise RpcError(Code.ABORTED, f"it came back with {before[0]}, as before: nothing was installed")
    if state.phase is Phase.BLESSED:
        console.note(f"{node}: {state.version} is the default from now on")


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


COMMAND = Command(
    name="upgrade",
    summary="Install another version on the node",
    flags=(
        *CLIENT_FLAGS,
        *WAIT_FLAGS,
        Flag(
            name="drain",
            type=Type.BOOL,
            default="true",
            help="always: the node moves its pods elsewhere before it reboots, within five minutes",
        ),
        Flag(
            name="drain-timeout",
            type=Type.DURATION,
            default="5m0s",
            help="when given, drain the node from here first, for so long",
        ),
        Flag(
            name="strict-drain",
            type=Type.BOOL,
            default="false",
            help="don't reboot a node whose pods stay for longer than --drain-timeout, as budgets may demand",
        ),
        Flag(
            name="force",
            short="f",
            type=Type.BOOL,
            default="false",
            help="allow an older release, skipped minor versions, missing features and failing trial checks, "
            "and don't check etcd; by the call of older nodes, the only one that has it",
        ),
        Flag(
            name="image",
            short="i",
            default=f"{INSTALLER_IMAGE}:{client_version().tag}",
            help="the release: an image in a registry, or its archive on this machine",
        ),
        Flag(name="legacy", type=Type.BOOL, default="false", help="upgrade by the call of older nodes"),
        Flag(
            name="max-unavailable",
            default="",
            help="of several nodes: how many workers may be down at once, or a share such as 25%",
        ),
        Flag(name="namespace", default="system", help="where to keep the image: system or cri"),
        Flag(name="no-reboot", type=Type.BOOL, default="false", help="install only, do not boot it yet"),
        Flag(
            name="output",
            short="o",
            choices=("table", "json", "yaml"),
            default="table",
            help="of several nodes: how to show what became of each",
        ),
        Flag(
            name="parallel",
            type=Type.UINT16,
            default="1",
            help="of several nodes: how many workers at once; control plane nodes go one at a time",
        ),
        Flag(
            name="preserve",
            short="p",
            type=Type.BOOL,
            default="false",
            help="don't check etcd, by the call of older nodes; data is always kept",
        ),
        Flag(name="progress", default="auto", help="how to show the progress: auto or plain"),
        Flag(name="reboot-mode", short="m", default="default", help="default or powercycle"),
        Flag(
            name="stage",
            short="s",
            type=Type.BOOL,
            default="false",
            help="write the other slot before services stop, by the call of older nodes",
        ),
    ),
    run=run_upgrade,
)
