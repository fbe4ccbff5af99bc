"""LifecycleService/Install, which no command of talosctl calls: by talosctl's own modules."""

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from driver.client import Client

if TYPE_CHECKING:
    from talos.client.session import Session

UPGRADE_TIMEOUT = 900.0  # seconds


def install(
    client: Client, image: str, disk: str, seconds: float = UPGRADE_TIMEOUT
) -> tuple[Sequence[str], int]:
    """Pull a release and install it: the installer's lines, and its exit code."""
    sys.path.append(str(client.program.resolve().parent.parent / "lib"))
    return asyncio.run(asyncio.wait_for(_install(client, image, disk), seconds))


async def _install(client: Client, image: str, disk: str) -> tuple[Sequence[str], int]:
    from talos.api.common.common_pb2 import NS_SYSTEM, ContainerdInstance
    from talos.client.endpoint import parse_endpoint
    from talos.client.session import open_session
    from talos.client.target import Target
    from talos.config.talosconfig.places import open_talosconfig
    from talos.talosctl.client.images import pull_shown

    assert client.talosconfig is not None
    context = open_talosconfig(str(client.talosconfig))[0].get("vm")
    address = parse_endpoint(f"127.0.0.1:{client.port}")
    target = Target(endpoints=(address,), nodes=(), ca=context.ca, crt=context.crt, key=context.key)
    async with open_session(target) as session:
        name = await pull_shown(session, "", ContainerdInstance(namespace=NS_SYSTEM), image)
        return await run_installer(session, "", name, disk)


async def run_installer(session: "Session", node: str, image: str, disk: str) -> tuple[Sequence[str], int]:
    """Install a release that the node has: the installer's lines, and its exit code."""
    from talos.api.common.common_pb2 import NS_SYSTEM, ContainerdInstance
    from talos.api.machine import lifecycle_pb2 as pb

    request = pb.LifecycleServiceInstallRequest(
        containerd=ContainerdInstance(namespace=NS_SYSTEM),
        source=pb.InstallArtifactsSource(image_name=image),
        destination=pb.InstallDestination(disk=disk),
    )
    lines: list[str] = []
    path, reply = "/machine.LifecycleService/Install", pb.LifecycleServiceInstallResponse
    async with session.stream(node, path, request, reply) as replies:
        async for part in replies:
            if part.progress.WhichOneof("response") == "exit_code":
                return lines, part.progress.exit_code
            lines.append(part.progress.message)
    raise AssertionError(f"there was no exit code; lines: {lines}")
