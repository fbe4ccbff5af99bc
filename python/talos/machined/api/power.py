"""Reboot, Shutdown and Reset; Upgrade, Rollback and the META calls where they can't be."""

from collections.abc import Mapping

from google.protobuf.message import Message

from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError
from talos.disks.reset import ResetPlan, plan_reset
from talos.machined.node.ports import Node, RebootMode, SequenceLockedError

_NOT_IN_CONTAINER = ("Upgrade", "Rollback", "MetaWrite", "MetaDelete")


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""

    async def reboot(request: pb.RebootRequest, call: Call) -> pb.RebootResponse:
        del call
        try:
            mode = RebootMode(request.mode)
        except ValueError:
            raise RpcError(Code.INVALID_ARGUMENT, f"unknown reboot mode {request.mode}") from None
        try:
            actor = node.power.reboot(mode=mode)
        except SequenceLockedError:
            raise _make_locked() from None
        return pb.RebootResponse(messages=[pb.Reboot(actor_id=actor)])

    async def shutdown(request: pb.ShutdownRequest, call: Call) -> pb.ShutdownResponse:
        del call
        try:
            actor = node.power.shutdown(force=request.force)
        except SequenceLockedError:
            raise _make_locked() from None
        return pb.ShutdownResponse(messages=[pb.Shutdown(actor_id=actor)])

    async def reset(request: pb.ResetRequest, call: Call) -> pb.ResetResponse:
        del call
        if request.mode not in pb.ResetRequest.WipeMode.values():
            raise RpcError(Code.INVALID_ARGUMENT, f"unknown wipe mode {request.mode}")
        # A container has no disks of its own: it only ends, and its launcher keeps or removes what it had.
        plan = ResetPlan() if is_container else await plan_reset(node.state, request)
        try:
            actor = node.power.reset(plan)
        except SequenceLockedError:
            raise _make_locked() from None
        return pb.ResetResponse(messages=[pb.Reset(actor_id=actor)])

    is_container = node.platform.mode == "container"
    found: dict[str, Handler] = {"Reboot": reboot, "Shutdown": shutdown, "Reset": reset}
    if is_container:
        # No partitions, no META, no boot loader. Rebooting is ours to do: the launcher starts us again.
        found |= dict.fromkeys(_NOT_IN_CONTAINER, _refuse_in_container)
    return found


def _make_locked() -> RpcError:
    return RpcError(Code.FAILED_PRECONDITION, "another sequence is running, wait for it to end")


async def _refuse_in_container(request: Message, call: Call) -> Message:
    del request, call
    raise RpcError(Code.FAILED_PRECONDITION, "method is not supported in container mode")
