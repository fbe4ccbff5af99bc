"""Reboot, Shutdown and Reset."""

from collections.abc import Callable, Mapping

from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError
from talos.disks.reset import ResetPlan, plan_reset
from talos.machined.node.ports.node import Node
from talos.machined.node.ports.power import RebootMode, SequenceLockedError
from talos.machined.services.etcd import check_leave
from talos.upgrade.state import Phase


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""

    async def reboot(request: pb.RebootRequest, _call: Call) -> pb.RebootResponse:
        try:
            mode = RebootMode(request.mode)
        except ValueError:
            raise RpcError(Code.INVALID_ARGUMENT, f"unknown reboot mode {request.mode}") from None
        return pb.RebootResponse(messages=[pb.Reboot(actor_id=await begin_reboot(node, mode))])

    async def shutdown(request: pb.ShutdownRequest, _call: Call) -> pb.ShutdownResponse:
        actor = node.power.shutdown(force=request.force)
        return pb.ShutdownResponse(messages=[pb.Shutdown(actor_id=actor)])

    async def reset(request: pb.ResetRequest, _call: Call) -> pb.ResetResponse:
        if request.mode not in pb.ResetRequest.WipeMode.values():
            raise RpcError(Code.INVALID_ARGUMENT, f"unknown wipe mode {request.mode}")
        plan = await _plan_reset(node, request)
        actor = _begin(lambda: node.power.reset(plan))
        return pb.ResetResponse(messages=[pb.Reset(actor_id=actor)])

    return {"Reboot": reboot, "Shutdown": shutdown, "Reset": reset}


async def begin_reboot(node: Node, mode: RebootMode = RebootMode.DEFAULT) -> str:
    """Start to reboot; the actor id. RpcError: a staged release can't be tried now."""
    is_upgrade = node.upgrades.current.phase is Phase.STAGED
    lock = node.upgrade_lock if is_upgrade and mode is not RebootMode.FORCE else None
    if lock and not node.power.is_locked:
        await _lock_upgrade(node)
    return _begin(lambda: node.power.reboot(mode=mode, is_upgrade=is_upgrade, lock=lock))


async def _lock_upgrade(node: Node) -> None:
    """Before the node goes away to try a release: it may have been written hours ago."""
    try:
        await node.upgrade_lock.take(node.upgrades.log.info)
    except RpcError as error:
        if not node.power.is_locked:  # by another call that took it
            await node.upgrade_lock.release()
        text = (
            f"{node.upgrades.current.version} can't be tried now: {error.reason}; "
            "talosctl reboot --mode force tries it all the same, talosctl rollback takes it back"
        )
        raise RpcError(Code.FAILED_PRECONDITION, text) from None


async def _plan_reset(node: Node, request: pb.ResetRequest) -> ResetPlan:
    """What is erased; refused before anything happens when the cluster needs this node's member of etcd."""
    # A container has no disks of its own: it only ends, and its launcher keeps or removes its volumes.
    plan = ResetPlan(graceful=request.graceful)
    if node.platform.has_disks:
        plan = await plan_reset(node.state, request)
    if not plan.graceful:
        return plan
    try:
        await check_leave(node.connect, node.state)
    except RpcError as error:
        text = f"this node can't leave etcd: {error.reason}; --graceful=false resets it all the same"
        raise RpcError(Code.FAILED_PRECONDITION, text) from None
    return plan


def _begin(start: Callable[[], str]) -> str:
    """Start a sequence; the actor id, under which the events have that another one is in its way."""
    try:
        return start()
    except SequenceLockedError as locked:
        return locked.actor
