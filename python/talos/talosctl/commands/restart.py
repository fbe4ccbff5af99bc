"""``talosctl restart``."""

from talos.api.machine.machine_pb2 import Restart, RestartRequest, RestartResponse
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.client.command import ignore, parts, run_each
from talos.talosctl.client.flags import CLIENT_FLAGS, DRIVER
from talos.talosctl.client.namespaces import container_place
from talos.talosctl.client.session import Session


def run_restart(invocation: Invocation) -> int:
    """Restart one container."""
    namespace, driver = container_place(is_kubernetes=invocation.flags.is_set("kubernetes"))
    request = RestartRequest(namespace=namespace, driver=driver, id=invocation.args[0])

    async def ask(session: Session, node: str) -> list[Restart]:
        reply = await session.unary(node, "/machine.MachineService/Restart", request, RestartResponse)
        return list(parts(reply, Restart))

    return run_each(invocation, ask, ignore)


COMMAND = Command(
    name="restart",
    usage="<id>",
    summary="Restart a container",
    flags=(*CLIENT_FLAGS, DRIVER),
    least=1,
    most=1,
    run=run_restart,
)
