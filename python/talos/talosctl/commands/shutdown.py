"""``talosctl shutdown``."""

from talos.api.machine.machine_pb2 import Shutdown, ShutdownRequest, ShutdownResponse
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import parts
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.power import WAIT_FLAGS, run_power
from talos.talosctl.client.session import Session


def run_shutdown(invocation: Invocation) -> int:
    """Power every node off."""
    request = ShutdownRequest(force=invocation.flags.is_set("force"))

    async def act(session: Session, node: str) -> str:
        reply = await session.unary(node, "/machine.MachineService/Shutdown", request, ShutdownResponse)
        return next((part.actor_id for part in parts(reply, Shutdown)), "")

    return run_power(invocation, act, is_reboot=False)


COMMAND = Command(
    name="shutdown",
    summary="Shut the node down",
    flags=(
        *CLIENT_FLAGS,
        *WAIT_FLAGS,
        Flag(name="force", type=Type.BOOL, default="false", help="do not move pods elsewhere before"),
    ),
    run=run_shutdown,
)
