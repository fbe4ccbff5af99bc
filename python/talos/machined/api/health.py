"""HealthCheck: wait until what a control plane node runs is healthy, and report on the way."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import trio

from talos.api.cluster import cluster_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.api.resource import config_pb2
from talos.api.rpc import Call, Code, Handler, RpcError, Send
from talos.machined.node.ports import Node, ServiceState, UnknownServiceError
from talos.resource import ids
from talos.resource.state import NotFoundError, State

PAUSE = 0.5
"""Seconds between two checks."""
DEFAULT_WAIT = 300.0
_METHOD = "/cluster.ClusterService/HealthCheck"

type Check = Callable[[Node], Awaitable[str]]
"""What is wrong, empty when nothing is."""


async def check_service(node: Node, *, id: str) -> str:
    """A service runs and its last health check found nothing."""
    try:
        service = node.services.get(id)
    except UnknownServiceError:
        return f'service "{id}" is not part of this version'
    if service.state is not ServiceState.RUNNING:
        return f'service "{id}" is {service.state.value}'
    if service.health.unknown or not service.health.healthy:
        return f'service "{id}" is not healthy: {service.health.last_message or "no check yet"}'
    return ""


async def check_boot(node: Node) -> str:
    """The boot has ended and nothing is missing."""
    try:
        status = (await node.state.get(*ids.MACHINE_STATUS)).spec
    except NotFoundError:
        return "the machine's status is not known yet"
    if status.stage != enums.MACHINE_STAGE_RUNNING:
        return "the boot has not ended"
    unmet = ", ".join(f"{one.name}: {one.reason}" for one in status.status.unmet_conditions)
    return f"the machine is not ready: {unmet}" if unmet else ""


CHECKS: Mapping[str, Check] = {
    "etcd to be healthy": partial(check_service, id="etcd"),
    "apid to be ready": partial(check_service, id="apid"),
    "kubelet to be healthy": partial(check_service, id="kubelet"),
    "all nodes to finish boot sequence": check_boot,
}
"""In the order in which they are waited for."""


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of cluster.ClusterService."""

    async def health_check(request: cluster_pb2.HealthCheckRequest, call: Call, send: Send) -> None:
        del call
        await require_control_plane(node.state)
        seconds = request.wait_timeout.ToTimedelta().total_seconds() or DEFAULT_WAIT
        reported = ""

        async def report(text: str) -> None:
            nonlocal reported
            if text != reported:
                reported = text
                await send(cluster_pb2.HealthCheckProgress(message=text))

        with trio.move_on_after(seconds) as scope:
            for name, check in CHECKS.items():
                await report(f"waiting for {name}: ...")
                while problem := await check(node):
                    await report(f"waiting for {name}: {problem}")
                    await trio.sleep(PAUSE)
                await report(f"waiting for {name}: OK")
        if scope.cancelled_caught:
            raise RpcError(Code.DEADLINE_EXCEEDED, f"not healthy within {seconds:g} s: {reported}")

    return {"HealthCheck": health_check}


async def require_control_plane(state: State) -> None:
    """Refuse a call that only control plane nodes serve."""
    try:
        kind = (await state.get(*ids.MACHINE_TYPE)).spec.machine_type
    except NotFoundError:
        kind = config_pb2.UNKNOWN
    if kind == config_pb2.UNKNOWN:
        raise RpcError(Code.UNIMPLEMENTED, f"machine type is not set, cannot use {_METHOD} API")
    if kind not in (config_pb2.INIT, config_pb2.CONTROL_PLANE):
        raise RpcError(Code.UNIMPLEMENTED, f"{_METHOD} is only available on control plane nodes")
