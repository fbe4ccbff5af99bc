"""``talosctl rollback``."""

from talos.api.machine.machine_pb2 import Rollback, RollbackRequest, RollbackResponse
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.client.command import ignore, parts, run_each
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.session import Session


async def _ask(session: Session, node: str) -> list[Rollback]:
    reply = await session.unary(node, "/machine.MachineService/Rollback", RollbackRequest(), RollbackResponse)
    return list(parts(reply, Rollback))


def run_rollback(invocation: Invocation) -> int:
    """Boot the version before this one."""
    return run_each(invocation, _ask, ignore)


COMMAND = Command(
    name="rollback",
    summary="Go back to the version installed before",
    flags=CLIENT_FLAGS,
    run=run_rollback,
)
