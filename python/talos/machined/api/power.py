"""Reboot, Shutdown and Reset."""

from collections.abc import Mapping

from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError
from talos.disks.reset import ResetPlan, plan_reset
from talos.machined.node.ports import Node, RebootMode, SequenceLockedError
from talos.machined.services.etcd import check_leave
from talos.upgrade.state import Phase


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""

    async def reboot(request: pb.RebootRequest, call: Call) -> pb.RebootResponse:
        del call
        try:
            mode = RebootMode(request.mode)
        except ValueError:
            raise RpcError(Code.INVALID_ARGUMENT, f"unknown reboot mode {request.mode}") from None
        try:
            is_upgrade = node.upgrades.current.phase is Phase.STAGED
            actor = node.power.reboot(mode=mode, is_upgrade=is_upgrade)
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
        plan = await _plan_reset(node, request)
        try:
            actor = node.power.reset(plan)
        except SequenceLockedError:
            raise _make_locked() from None
        return pb.ResetResponse(messages=[pb.Reset(actor_id=actor)])

    return {"Reboot": reboot, "Shutdown": shutdown, "Reset": reset}


async def _plan_reset(node: Node, request: pb.ResetRequest) -> ResetPlan:
    """What is erased; refused before anything happens when the cluster needs this node's member of etcd."""
    # A container has no disks of its own: it only ends, and its launcher keeps or removes its volumes.
    plan = ResetPlan(graceful=request.graceful)
    if node.platform.has_disks:
        plan = await plan_reset(node.state, request)
    if not plan.graceful:
        return plan
    try:
        await check_leave(node.connect)
    except RpcError as error:
        text = f"this node can't leave etcd: {error.message}; --graceful=false resets it all the same"
        raise RpcError(Code.FAILED_PRECONDITION, text) from None
    return plan


def _make_locked() -> RpcError:
    return RpcError(Code.FAILED_PRECONDITION, "another sequence is running, wait for it to end")
