"""Version and Hostname."""

from collections.abc import Mapping

from google.protobuf.empty_pb2 import Empty

from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Handler
from talos.machined.api.pump import in_thread
from talos.machined.node.ports.node import Node
from talos.resource import ids
from talos.resource.state import NotFoundError, State
from talos.system.version import get_version


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""

    async def version(_request: Empty, _call: Call) -> pb.VersionResponse:
        message = pb.Version(
            version=make_version_info(),
            platform=pb.PlatformInfo(name=node.platform.name, mode=node.platform.mode),
        )
        if await has_config(node.state):
            message.features.rbac = True
        return pb.VersionResponse(messages=[message])

    async def hostname(_request: Empty, _call: Call) -> pb.HostnameResponse:
        name = await in_thread(node.ports.files.read, "/proc/sys/kernel/hostname")
        return pb.HostnameResponse(messages=[pb.Hostname(hostname=name.strip())])

    return {"Version": version, "Hostname": hostname}


async def has_config(state: State) -> bool:
    """Whether the machine has its config."""
    try:
        await state.get(*ids.MACHINE_CONFIG)
    except NotFoundError:
        return False
    return True


def make_version_info() -> pb.VersionInfo:
    """The running version; the language has taken the field of Go's."""
    found = get_version()
    return pb.VersionInfo(
        tag=found.tag,
        sha=found.sha,
        built=found.built,
        go_version=found.language,
        os=found.os,
        arch=found.arch,
    )
