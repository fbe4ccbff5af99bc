"""DebugService: a container in which an administrator looks around the node, as long as the call lasts."""

import signal
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import trio

from talos.api.common import common_pb2
from talos.api.machine.debug_pb2 import (
    DebugContainerRunRequest,
    DebugContainerRunRequestSpec,
    DebugContainerRunResponse,
)
from talos.api.metadata import CALLER
from talos.api.rpc import Call, Code, Handler, RpcError, Send
from talos.images.reference import parse_reference
from talos.machined.api.images import open_instance
from talos.machined.containerd.attached import Attached, run_attached
from talos.machined.containerd.client import Containerd
from talos.machined.containerd.debug.image_root import open_image_root
from talos.machined.containerd.debug.left import remove_left
from talos.machined.containerd.debug.spec import make_host_spec, make_spec
from talos.machined.containerd.store import Image, find_image
from talos.machined.logs.store import AUDIT
from talos.machined.node.oom import DEBUG
from talos.machined.node.ports.node import Node
from talos.machined.services.kubelet import find_capabilities
from talos.system.logging import Log, make_printable
from talos.system.proc.cmdline import parse_cmdline

SWITCH = "talos.debug.disabled"
"""The kernel argument that refuses every such container; a running system can't change its arguments."""
OOM_SCORE = 500
"""When memory is short it goes before anything that the node is there for."""
MAX_ARGUMENTS = 128 * 1024
"""Bytes of arguments and variables together: they are in the node's memory as long as it runs."""
MAX_FIELD = 256
"""Characters of an image's name in the record."""
OUTPUT_TIMEOUT = 5.0
"""Seconds for the rest of the output once the first process has ended."""
CLOSE_TIMEOUT = 5.0
"""Seconds for a client to end its stream once it has the exit code: what it still sends is no error."""
_HOST_NS = DebugContainerRunRequestSpec.PROFILE_HOST_NS


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.DebugService."""
    log = Log(write=lambda line: node.logs.append(AUDIT, f"{line}\n".encode()))

    async def run(requests: AsyncIterator[DebugContainerRunRequest], call: Call, send: Send) -> None:
        if parse_cmdline(node.platform.cmdline).is_on(SWITCH):
            text = f"this node runs no debug containers: it was started with the kernel argument {SWITCH}"
            raise RpcError(Code.PERMISSION_DENIED, text)
        request = await _receive_spec(requests)
        name = str(parse_reference(request.image_name))
        place, containers = request.containerd, node.debug_containers
        opening = open_instance(node, place.namespace, is_cri=place.driver == common_pb2.CRI)
        with containers.running() as container_id:
            async with opening as instance:
                await remove_left(instance.containerd, containers.ids)
                image = await find_image(instance.containerd, name)
                if image is None:
                    raise RpcError(Code.NOT_FOUND, f"image {name} not found: pull or import it first")
                log.info(
                    "audit",
                    method=call.method,
                    peer=next(iter(call.metadata.get(CALLER, ())), ""),
                    roles=sorted(call.roles),
                    container=container_id,
                    image=make_printable(name[:MAX_FIELD]),
                    profile=DebugContainerRunRequestSpec.Profile.Name(request.profile),
                    arguments=len(request.args),
                    result="started",
                )
                async with _run(node, request, instance.containerd, image, container_id) as container:
                    code = await _serve(container, requests, send, to_group=request.profile == _HOST_NS)
        await send(DebugContainerRunResponse(exit_code=code))
        with trio.move_on_after(CLOSE_TIMEOUT):
            async for _ in requests:
                pass

    return {"ContainerRun": run}


async def _receive_spec(requests: AsyncIterator[DebugContainerRunRequest]) -> DebugContainerRunRequestSpec:
    first = await anext(requests, None)
    if first is None:
        raise RpcError(Code.INVALID_ARGUMENT, "failed to receive spec: the stream has ended")
    if not first.HasField("spec"):
        raise RpcError(Code.INVALID_ARGUMENT, "expected debug container spec")
    spec = first.spec
    if spec.profile not in {DebugContainerRunRequestSpec.PROFILE_PRIVILEGED, _HOST_NS}:
        known = DebugContainerRunRequestSpec.Profile.values()
        shown = (
            DebugContainerRunRequestSpec.Profile.Name(spec.profile) if spec.profile in known else spec.profile
        )
        raise RpcError(Code.INVALID_ARGUMENT, f"unsupported debug container profile: {shown}")
    size = sum(map(len, spec.args)) + sum(len(name) + len(value) for name, value in spec.env.items())
    if size > MAX_ARGUMENTS:
        text = f"arguments and variables of {size} characters, {MAX_ARGUMENTS} are allowed"
        raise RpcError(Code.INVALID_ARGUMENT, text)
    return spec


@asynccontextmanager
async def _run(
    node: Node, request: DebugContainerRunRequestSpec, containerd: Containerd, image: Image, id: str
) -> AsyncGenerator[Attached]:
    """A container of the image, which ``containerd`` has, as long as the context is open."""
    capabilities = find_capabilities(await trio.Path("/proc/self/status").read_text(encoding="utf-8"))
    run = partial(run_attached, id=id, group=f"{DEBUG}/{id}", oom_score_adj=OOM_SCORE)
    if request.profile == _HOST_NS:
        # The containers of Kubernetes' instance may be in another pid namespace than PID 1's.
        async with open_instance(node, common_pb2.NS_SYSTEM, is_cri=False) as system:
            await remove_left(system.containerd, node.debug_containers.ids)
            async with open_image_root(containerd, image, id) as root:
                spec = make_host_spec(request, image.name, capabilities, root)
                async with run(system.containerd, spec, None) as container:
                    yield container
    else:
        async with run(containerd, make_spec(request, image.name, capabilities), image) as container:
            yield container


async def _serve(
    container: Attached, requests: AsyncIterator[DebugContainerRunRequest], send: Send, *, to_group: bool
) -> int:
    """Pass input and output on until the container has ended; its exit code."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(_feed, container, requests, to_group=to_group))
        with trio.CancelScope() as reading:
            nursery.start_soon(_end_late_output, container, reading)
            while output := await container.read():
                await send(DebugContainerRunResponse(stdout_data=output))
        code = await container.wait()
        nursery.cancel_scope.cancel()
    return code


async def _end_late_output(container: Attached, reading: trio.CancelScope) -> None:
    await container.wait()
    await trio.sleep(OUTPUT_TIMEOUT)
    reading.cancel()


async def _feed(
    container: Attached, requests: AsyncIterator[DebugContainerRunRequest], *, to_group: bool
) -> None:
    async for request in requests:
        match request.WhichOneof("request"):
            case "stdin_data":
                await container.write(request.stdin_data)
            case "signal":
                container.signal(_find_signal(request.signal), group=to_group)
            case "term_resize":
                await container.resize(request.term_resize.width, request.term_resize.height)
            case _:
                raise RpcError(Code.INVALID_ARGUMENT, "expected input, a signal or the terminal's size")
    await container.end_input()


def _find_signal(number: int) -> signal.Signals:
    try:
        return signal.Signals(number)
    except ValueError:
        raise RpcError(Code.INVALID_ARGUMENT, f"there is no signal {number}") from None
