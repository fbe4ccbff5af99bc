"""Commands that end or change what runs on a node: ``talosctl reboot``, ``shutdown``, ``rollback``."""

from talos.api.machine.machine_pb2 import (
    Reboot,
    RebootRequest,
    RebootResponse,
    Rollback,
    RollbackRequest,
    RollbackResponse,
    Shutdown,
    ShutdownRequest,
    ShutdownResponse,
)
from talos.client.session import Session
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import ignore, parts, run_each
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.power import WAIT_FLAGS, run_power

MODES = {
    "default": RebootRequest.DEFAULT,
    "powercycle": RebootRequest.POWERCYCLE,
    "force": RebootRequest.FORCE,
}


def run_reboot(invocation: Invocation) -> int:
    """Reboot every node."""
    flags = invocation.flags
    mode = flags.text("mode").lower()
    if mode not in MODES:
        raise UserError(f'"{mode}" is no way to reboot', where="--mode", hint=f"use {', '.join(MODES)}")
    request = RebootRequest(mode=MODES[mode])

    async def act(session: Session, node: str) -> str:
        reply = await session.unary(node, "/machine.MachineService/Reboot", request, RebootResponse)
        return next((part.actor_id for part in parts(reply, Reboot)), "")

    if not flags.is_set("drain"):
        return run_power(invocation, act, is_reboot=True)
    # Kubernetes' client is loaded only where it is used.
    from talos.talosctl.client.drain import Drainer

    # As upstream it waits in any case: a node that is drained is to be uncordoned.
    drainer = Drainer(flags.seconds("drain-timeout"))
    return run_power(invocation, act, is_reboot=True, drainer=drainer, waits=True)


REBOOT = Command(
    name="reboot",
    summary="Reboot the node",
    flags=(
        *CLIENT_FLAGS,
        *WAIT_FLAGS,
        Flag(
            name="mode",
            short="m",
            default="default",
            help="default, powercycle (through the firmware) or force (skip the shutdown)",
        ),
        Flag(
            name="drain",
            type=Type.BOOL,
            default="false",
            help="move the pods elsewhere before, and allow them again at the end: it waits in any case",
        ),
        Flag(name="drain-timeout", type=Type.DURATION, default="5m0s", help="how long --drain may take"),
        Flag(name="progress", default="auto", help="how to show the progress: auto or plain"),
    ),
    run=run_reboot,
)


def run_shutdown(invocation: Invocation) -> int:
    """Power every node off."""
    request = ShutdownRequest(force=invocation.flags.is_set("force"))

    async def act(session: Session, node: str) -> str:
        reply = await session.unary(node, "/machine.MachineService/Shutdown", request, ShutdownResponse)
        return next((part.actor_id for part in parts(reply, Shutdown)), "")

    return run_power(invocation, act, is_reboot=False)


SHUTDOWN = Command(
    name="shutdown",
    summary="Shut the node down",
    flags=(
        *CLIENT_FLAGS,
        *WAIT_FLAGS,
        Flag(name="force", type=Type.BOOL, default="false", help="do not move pods elsewhere before"),
    ),
    run=run_shutdown,
)


async def _roll_back(session: Session, node: str) -> list[Rollback]:
    reply = await session.unary(node, "/machine.MachineService/Rollback", RollbackRequest(), RollbackResponse)
    return list(parts(reply, Rollback))


def run_rollback(invocation: Invocation) -> int:
    """Boot the version before this one."""
    return run_each(invocation, _roll_back, ignore)


ROLLBACK = Command(
    name="rollback",
    summary="Go back to the version installed before",
    flags=CLIENT_FLAGS,
    run=run_rollback,
)
