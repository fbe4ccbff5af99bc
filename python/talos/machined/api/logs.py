"""Logs, LogsContainers and Dmesg."""

from collections.abc import Mapping

from google.protobuf.empty_pb2 import Empty

from talos.api.common import common_pb2
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError, Send
from talos.machined.api.container_logs import send_container_log
from talos.machined.containerd.client import PODS, SYSTEM
from talos.machined.node.ports.logs import UnknownLogError
from talos.machined.node.ports.node import Node

_OTHER_NAMES = {"dns-resolve-cache": "dnsd"}
"""Names of logs that existing clients use, and the daemons that write them here."""
_CHUNK = 64 * 1024
"""Bytes a frame; a ring of 1 MiB in one piece would have to be held by every hop to the client."""
_KUBELET = "kubelet"


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""

    async def logs(request: pb.LogsRequest, _call: Call, send: Send) -> None:
        _check_request(request)
        if request.namespace == PODS and request.id != _KUBELET:
            await send_container_log(node, request, send)
            return
        try:
            async with node.logs.read(
                _OTHER_NAMES.get(request.id, request.id), follow=request.follow, tail_lines=request.tail_lines
            ) as chunks:
                async for chunk in chunks:
                    for start in range(0, len(chunk), _CHUNK):
                        await send(common_pb2.Data(bytes=chunk[start : start + _CHUNK]))
        except UnknownLogError:
            _check_service(node, request.id)

    async def logs_containers(_request: Empty, _call: Call) -> pb.LogsContainersResponse:
        return pb.LogsContainersResponse(messages=[pb.LogsContainer(ids=_list_ids(node))])

    async def dmesg(request: pb.DmesgRequest, _call: Call, send: Send) -> None:
        async with node.kernel_log.read(follow=request.follow, tail=request.tail) as lines:
            async for line in lines:
                await send(common_pb2.Data(bytes=line))

    return {"Logs": logs, "LogsContainers": logs_containers, "Dmesg": dmesg}


def _check_request(request: pb.LogsRequest) -> None:
    """RpcError: it names no log."""
    if not request.id:
        raise RpcError(Code.INVALID_ARGUMENT, "id is missing: a service's, or a container's")
    if request.namespace not in {SYSTEM, PODS, ""}:
        text = f'namespace "{request.namespace}" is not known, use "{SYSTEM}" or "{PODS}"'
        raise RpcError(Code.INVALID_ARGUMENT, text)


def _check_service(node: Node, id: str) -> None:
    """Of a log that is not there, whether a service has not written to it yet. RpcError: no such service."""
    if all(service.id != id for service in node.services.list()):
        # The code and the end of the text are what existing clients match.
        raise RpcError(Code.UNKNOWN, f'log "{id}" was not registered')


def _list_ids(node: Node) -> list[str]:
    """Every log, under all of its names."""
    ids = set(node.logs.ids())
    return sorted(ids | {name for name, own in _OTHER_NAMES.items() if own in ids})
