"""``talosctl reset``."""

from talos.api.machine.machine_pb2 import Reset, ResetPartitionSpec, ResetRequest, ResetResponse
from talos.client.session import Session
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import parts
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.power import WAIT_FLAGS, run_power

MODES = {
    "all": ResetRequest.ALL,
    "system-disk": ResetRequest.SYSTEM_DISK,
    "user-disks": ResetRequest.USER_DISKS,
}


def run_reset(invocation: Invocation) -> int:
    """Wipe every node."""
    flags = invocation.flags
    labels = flags.texts("system-labels-to-wipe")
    request = ResetRequest(
        graceful=flags.is_set("graceful"),
        reboot=flags.is_set("reboot"),
        system_partitions_to_wipe=[ResetPartitionSpec(label=label, wipe=True) for label in labels],
        user_disks_to_wipe=flags.texts("user-disks-to-wipe"),
        mode=MODES[flags.text("wipe-mode")],
    )

    async def act(session: Session, node: str) -> str:
        reply = await session.unary(node, "/machine.MachineService/Reset", request, ResetResponse)
        return next((part.actor_id for part in parts(reply, Reset)), "")

    # Without its config the node comes back with another CA: these credentials are not for it.
    comes_back = request.reboot and bool(labels) and "STATE" not in labels
    return run_power(invocation, act, is_reboot=comes_back)


COMMAND = Command(
    name="reset",
    summary="Wipe the node",
    flags=(
        *CLIENT_FLAGS,
        *WAIT_FLAGS,
        Flag(name="graceful", type=Type.BOOL, default="true", help="leave etcd and Kubernetes before"),
        Flag(
            name="reboot", type=Type.BOOL, default="false", help="reboot afterwards instead of powering off"
        ),
        Flag(
            name="system-labels-to-wipe", type=Type.STRINGS, help="only these partitions of the system disk"
        ),
        Flag(name="user-disks-to-wipe", type=Type.STRINGS, help="these other disks as well"),
        Flag(name="wipe-mode", choices=tuple(MODES), default="all", help="which disks to wipe"),
    ),
    run=run_reset,
)
