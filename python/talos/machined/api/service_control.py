"""What the API does with the node's services: ServiceList, ServiceStart, ServiceStop, ServiceRestart."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from google.protobuf.empty_pb2 import Empty

from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError
from talos.api.timestamps import make_timestamp
from talos.machined.node.ports.node import Node
from talos.machined.node.ports.services import ServiceRefusedError, ServiceStatus, UnknownServiceError
from talos.machined.services.lifecycle import make_health


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""
    services = node.services

    async def list_services(_request: Empty, _call: Call) -> pb.ServiceListResponse:
        found = [make_info(service) for service in services.list()]
        return pb.ServiceListResponse(messages=[pb.ServiceList(services=found)])

    async def start(request: pb.ServiceStartRequest, _call: Call) -> pb.ServiceStartResponse:
        text = await _act(services.start, request.id, "start", "started")
        return pb.ServiceStartResponse(messages=[pb.ServiceStart(resp=text)])

    async def stop(request: pb.ServiceStopRequest, _call: Call) -> pb.ServiceStopResponse:
        text = await _act(services.stop, request.id, "stop", "stopped")
        return pb.ServiceStopResponse(messages=[pb.ServiceStop(resp=text)])

    async def restart(request: pb.ServiceRestartRequest, _call: Call) -> pb.ServiceRestartResponse:
        text = await _act(services.restart, request.id, "restart", "restarted")
        return pb.ServiceRestartResponse(messages=[pb.ServiceRestart(resp=text)])

    return {
        "ServiceList": list_services,
        "ServiceStart": start,
        "ServiceStop": stop,
        "ServiceRestart": restart,
    }


async def _act(action: Callable[[str], Awaitable[Any]], id: str, verb: str, done: str) -> str:
    try:
        await action(id)
    except UnknownServiceError:
        raise RpcError(Code.NOT_FOUND, f'service "{id}" not defined') from None
    except ServiceRefusedError as error:
        reason = f": {error}" if str(error) not in {"", id} else ""
        text = f'service "{id}" doesn\'t support {verb} operation via API{reason}'
        raise RpcError(Code.FAILED_PRECONDITION, text) from None
    return f'Service "{id}" {done}'


def make_info(service: ServiceStatus) -> pb.ServiceInfo:
    """A service as the API has it."""
    events = [
        pb.ServiceEvent(msg=event.message, state=event.state.value, ts=make_timestamp(event.time))
        for event in service.events
    ]
    return pb.ServiceInfo(
        id=service.id,
        state=service.state.value,
        events=pb.ServiceEvents(events=events),
        health=make_health(service.health),
    )
