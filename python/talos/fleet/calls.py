"""The calls on one node that an upgrade consists of, and what they find out."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from math import inf
from typing import Protocol

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from talos.api.common.common_pb2 import ContainerdInstance
from talos.api.cosi.resource_pb2 import Resource
from talos.api.definitions.enums_pb2 import RuntimeMachineStage
from talos.api.machine import image_pb2, lifecycle_pb2, machine_pb2
from talos.api.machine.image_pb2 import ImageServicePullLayerProgress as Layer
from talos.api.machine_types import is_control_plane
from talos.api.rpc import Code, RpcError
from talos.api.specs import parse_spec
from talos.health.calls import NodeCalls
from talos.resource import kinds
from talos.resource.kind import Kind
from talos.system.sizes import format_pretty_size
from talos.upgrade.state import BUSY, IDLE, STATE_TAG, Upgrade, parse_state

STATUS_TIMEOUT = 10.0
"""Seconds for all calls of the status of one node."""
POLL_INTERVAL = 1.0
"""Seconds between two checks of a node, and before a call is repeated."""
MAX_BOOT = 1800.0
"""Seconds after which a change of a machine's status is none of its boot."""
LOST = (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED)
"""What a call ends with when there is no answer to it."""
DEPENDENCY = 5
"""The installer's exit code when containerd or etcd refuses: nothing is written then."""
MACHINE = "/machine.MachineService/"


class FleetCalls(NodeCalls, Protocol):
    """Calls to the API of nodes, by their addresses. Each finds its own way: an endpoint may be down."""

    async def resources(self, node: str, kind: Kind[Message]) -> Sequence[Resource]:
        """All resources of a kind with their metadata; RpcError."""
        ...

    def stream[R: Message](
        self, node: str, method: str, request: Message, reply: type[R]
    ) -> AbstractAsyncContextManager[AsyncIterator[R]]:
        """Replies one after another; RpcError."""
        ...


class InstallerError(RpcError):
    """The installer of a node ended with another exit code than 0."""

    def __init__(self, exit_code: int, text: str) -> None:
        super().__init__(Code.ABORTED, f"the installer ended with exit code {exit_code}: {text}")
        self.exit_code = exit_code


async def repeat_lost[T](
    call: Callable[[], Awaitable[T]], grace: float, report: Callable[[str], None] = lambda _: None
) -> T:
    """Repeat a call that gets no answer, for up to ``grace`` seconds, and report why; RpcError.

    A call that was lost may still be at work, and refuse the next one meanwhile. So once one was lost, every
    error is a reason to repeat it, and the time begins anew while it is at work.
    """
    clock, end = asyncio.get_running_loop().time, inf
    while True:
        try:
            return await call()
        except RpcError as error:
            if error.code in LOST:
                end = min(end, clock() + grace)
            elif end < inf and error.message == BUSY:
                end = clock() + grace
            if end == inf or clock() >= end:
                raise
            report(f"repeated: {error.reason}")
        await asyncio.sleep(POLL_INTERVAL)


@asynccontextmanager
async def limited_call() -> AsyncGenerator[None]:
    """Bound the calls of one status; RpcError."""
    try:
        async with asyncio.timeout(STATUS_TIMEOUT):
            yield
    except TimeoutError as error:
        raise RpcError(Code.DEADLINE_EXCEEDED, f"no answer within {STATUS_TIMEOUT:g} s") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """A node as its API shows it.

    ``boot`` differs between two boots, ``is_running`` is False while the machine boots or goes down.
    ``upgrade`` is its own record, None while META is not read yet. ``boot_seconds`` are those of the last
    boot until the machine was ready, 0 when they are not known.
    """

    node: str
    hostname: str = ""
    version: str = ""
    architecture: str = ""
    is_control_plane: bool = False
    boot: str = ""
    boot_seconds: float = 0.0
    is_running: bool = False
    upgrade: Upgrade | None = IDLE

    @property
    def name(self) -> str:
        """Its hostname, as far as it is known."""
        return self.hostname or self.node


async def fetch_status(calls: FleetCalls, node: str) -> NodeStatus:
    """Fetch what a node is; RpcError."""
    async with limited_call():
        version, roles, names, upgrade, statuses = await asyncio.gather(
            calls.unary(node, MACHINE + "Version", Empty(), machine_pb2.VersionResponse),
            calls.specs(node, kinds.MACHINE_TYPE),
            calls.specs(node, kinds.HOSTNAME_STATUS),
            read_upgrade(calls, node),
            calls.resources(node, kinds.MACHINE_STATUS),
        )
    found = version.messages[0].version if version.messages else machine_pb2.VersionInfo()
    return NodeStatus(
        node=node,
        hostname=next((name.hostname for name in names), ""),
        version=found.tag,
        architecture=found.arch,
        is_control_plane=any(is_control_plane(role.machine_type) for role in roles),
        boot=next(map(_find_boot, statuses), ""),
        boot_seconds=next(map(_find_boot_seconds, statuses), 0.0),
        is_running=any(map(_is_running, statuses)),
        upgrade=upgrade,
    )


async def read_upgrade(calls: FleetCalls, node: str) -> Upgrade | None:
    """The node's own record of its last upgrade; None while its META is not read yet."""
    loads = await calls.resources(node, kinds.META_LOAD)
    keys = await calls.resources(node, kinds.META_KEY)
    if not loads:
        return None
    for key in keys:
        if key.metadata.id == f"0x{STATE_TAG:02x}":
            try:
                return parse_state(parse_spec(kinds.META_KEY.spec, key).value.encode())
            except ValueError:
                break
    return IDLE


def _find_boot(status: Resource) -> str:
    """When this boot's MachineStatus came to be: readers may not read the kernel's boot id."""
    created = status.metadata.created
    return f"{created.seconds}.{created.nanos:09d}"


def _find_boot_seconds(status: Resource) -> float:
    """Until the last change of the MachineStatus, which made it ready: unless it was unready long after."""
    spec, metadata = parse_spec(kinds.MACHINE_STATUS.spec, status), status.metadata
    # The type's own conversions refuse what is no date: a node sends what it wants.
    created, updated = metadata.created, metadata.updated
    seconds = updated.seconds - created.seconds + (updated.nanos - created.nanos) / 1e9
    is_ready = spec.stage == RuntimeMachineStage.MACHINE_STAGE_RUNNING and spec.status.ready
    return seconds if is_ready and 0 < seconds < MAX_BOOT else 0.0


def _is_running(status: Resource) -> bool:
    spec = parse_spec(kinds.MACHINE_STATUS.spec, status)
    return spec.stage == RuntimeMachineStage.MACHINE_STAGE_RUNNING


async def pull_image(
    calls: FleetCalls, node: str, containerd: ContainerdInstance, image: str, report: Callable[[str], None]
) -> str:
    """Have a node pull an image, report how far it is; its full name. RpcError."""
    request = image_pb2.ImageServicePullRequest(containerd=containerd, image_ref=image)
    name, layers = image, dict[str, Layer]()
    path, reply_type = "/machine.ImageService/Pull", image_pb2.ImageServicePullResponse
    async with calls.stream(node, path, request, reply_type) as replies:
        async for reply in replies:
            name = reply.name or name
            if reply.HasField("pull_progress"):
                layers[reply.pull_progress.layer_id] = reply.pull_progress.progress
                report(format_progress(layers.values()))
    return name


def format_progress(layers: Collection[Layer]) -> str:
    """How much of all parts that are known so far is there, and how many are unpacked."""
    total = sum(layer.total for layer in layers)
    present = sum(layer.offset if layer.status == Layer.DOWNLOADING else layer.total for layer in layers)
    done = sum(layer.status == Layer.EXTRACT_COMPLETE for layer in layers)
    unpacked = f", layers unpacked: {done}" if done else ""
    return f"{format_pretty_size(present)} of {format_pretty_size(total)}{unpacked}"


async def install_image(
    calls: FleetCalls, node: str, containerd: ContainerdInstance, name: str, report: Callable[[str], None]
) -> None:
    """Have a node write a release to its other slot; InstallerError with its last line, RpcError."""
    source = lifecycle_pb2.InstallArtifactsSource(image_name=name)
    request = lifecycle_pb2.LifecycleServiceUpgradeRequest(containerd=containerd, source=source)
    path, reply_type = "/machine.LifecycleService/Upgrade", lifecycle_pb2.LifecycleServiceUpgradeResponse
    last = ""
    async with calls.stream(node, path, request, reply_type) as replies:
        async for reply in replies:
            progress = reply.progress
            if progress.WhichOneof("response") != "exit_code":
                last = progress.message.rstrip()
                report(last)
            elif progress.exit_code:
                raise InstallerError(progress.exit_code, last)


async def reboot_node(calls: FleetCalls, node: str, mode: machine_pb2.RebootRequest.Mode) -> None:
    """Have a node reboot; it answers before it does."""
    request = machine_pb2.RebootRequest(mode=mode)
    await calls.unary(node, MACHINE + "Reboot", request, machine_pb2.RebootResponse)


async def upgrade_old(calls: FleetCalls, node: str, request: machine_pb2.UpgradeRequest) -> None:
    """Have a node write a release and reboot, by the call of older nodes."""
    await calls.unary(node, MACHINE + "Upgrade", request, machine_pb2.UpgradeResponse)
