"""PacketCapture: what passes a network interface, as a pcap stream."""

from collections.abc import Mapping

from talos.api.common import common_pb2
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError, Send
from talos.machined.node.ports.node import Node
from talos.system.net.capture import (
    DEFAULT_SNAP_LENGTH,
    MAX_SNAP_LENGTH,
    BadFilterError,
    Instruction,
    UnsupportedLinkError,
    open_capture,
)


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""
    del node
    return {"PacketCapture": run_capture}


async def run_capture(request: pb.PacketCaptureRequest, _call: Call, send: Send) -> None:
    """Frames with the file's header and then packets, until the caller ends the call."""
    name = request.interface
    if not name or "/" in name or name in {".", ".."}:
        raise RpcError(Code.INVALID_ARGUMENT, f"{name!r} is not the name of a network interface")
    program = [Instruction(step.op, step.jt, step.jf, step.k) for step in request.bpf_filter]
    try:
        async with open_capture(
            name,
            snap_length=min(request.snap_len or DEFAULT_SNAP_LENGTH, MAX_SNAP_LENGTH),
            promiscuous=request.promiscuous,
            program=program,
        ) as capture:
            await send(common_pb2.Data(bytes=capture.make_header()))
            while True:
                await send(common_pb2.Data(bytes=await capture.read()))
    except FileNotFoundError:
        raise RpcError(Code.NOT_FOUND, f'there is no network interface "{name}"') from None
    except UnsupportedLinkError as error:
        raise RpcError(
            Code.INVALID_ARGUMENT, f'packets of "{name}" have no place in a pcap file: {error}'
        ) from None
    except BadFilterError as error:
        raise RpcError(Code.INVALID_ARGUMENT, f"the filter is not a BPF program: {error}") from None
