"""``talosctl upgrade``."""

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
)
from talos.api.rpc import Code, RpcError
from talos.config.contract import INSTALLER_IMAGE
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client.command import parts
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.power import WAIT_FLAGS, run_power
from talos.talosctl.client.session import Session
from talos.talosctl.client_version import client_version
from talos.talosctl.commands.image import pull
from talos.talosctl.output import console

NAMESPACES = {
    "system": ContainerdInstance(driver=ContainerDriver.CONTAINERD, namespace=ContainerdNamespace.NS_SYSTEM),
    "cri": ContainerdInstance(driver=ContainerDriver.CRI, namespace=ContainerdNamespace.NS_CRI),
}
REBOOT_MODES = {"default": RebootRequest.DEFAULT, "powercycle": RebootRequest.POWERCYCLE}


def run_upgrade(invocation: Invocation) -> int:
    """Install an image into the other slot and boot it."""
    flags = invocation.flags
    containerd, mode = _check(flags)
    is_legacy = flags.is_set("legacy")
    image = flags.text("image")
    if not flags.is_set("no-reboot"):
        console.note("pods are not moved elsewhere before the reboot")

    async def act(session: Session, node: str) -> str:
        if is_legacy:
            request = UpgradeRequest(image=image, reboot_mode=mode.upper())
            upgraded = await session.unary(node, "/machine.MachineService/Upgrade", request, UpgradeResponse)
            return next((part.actor_id for part in parts(upgraded, Upgrade)), "")
        reboot = RebootRequest(mode=REBOOT_MODES[mode])
        reply = await session.unary(node, "/machine.MachineService/Reboot", reboot, RebootResponse)
        return next((part.actor_id for part in parts(reply, Reboot)), "")

    async def install(session: Session, node: str) -> bool:
        if is_legacy:
            return True
        await _install(session, node, containerd, image)
        return not flags.is_set("no-reboot")

    return run_power(invocation, act, is_reboot=True, prepare=install)


def _check(flags: Flags) -> tuple[ContainerdInstance, str]:
    """Where to keep the image, and how to reboot."""
    namespace, mode = flags.text("namespace"), flags.text("reboot-mode").lower()
    if namespace not in NAMESPACES:
        raise UserError(f'there is no namespace "{namespace}"', where="--namespace", hint="use system or cri")
    if mode not in REBOOT_MODES:
        hint = "use default or powercycle"
        raise UserError(f'"{mode}" is no way to reboot', where="--reboot-mode", hint=hint)
    if flags.is_given("drain") and flags.is_set("drain"):
        hint = "use kubectl drain first"
        raise UserError("this client can't drain Kubernetes nodes yet", where="--drain", hint=hint)
    return NAMESPACES[namespace], mode


async def _install(session: Session, node: str, containerd: ContainerdInstance, image: str) -> None:
    name = await pull(session, node, containerd, image)
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


COMMAND = Command(
    name="upgrade",
    summary="Install another version on the node",
    flags=(
        *CLIENT_FLAGS,
        *WAIT_FLAGS,
        Flag(name="drain", type=Type.BOOL, default="true", help="move the pods elsewhere before"),
        Flag(name="drain-timeout", type=Type.DURATION, default="5m0s", help="how long that may take"),
        Flag(
            name="image",
            short="i",
            default=f"{INSTALLER_IMAGE}:{client_version().tag}",
            help="the installer image",
        ),
        Flag(name="legacy", type=Type.BOOL, default="false", help="upgrade by the call of older nodes"),
        Flag(name="namespace", default="system", help="where to keep the image: system or cri"),
        Flag(name="no-reboot", type=Type.BOOL, default="false", help="install only, do not boot it yet"),
        Flag(name="progress", default="auto", help="how to show the progress: auto or plain"),
        Flag(name="reboot-mode", short="m", default="default", help="default or powercycle"),
    ),
    run=run_upgrade,
)
