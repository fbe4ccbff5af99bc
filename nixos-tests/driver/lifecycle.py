"""LifecycleService/Install, which no command of talosctl calls: by talosctl's own modules."""

import asyncio
import sys
from collections.abc import Sequence

from driver.client import Client

SECONDS = 900.0


def install(client: Client, image: str, disk: str, seconds: float = SECONDS) -> tuple[Sequence[str], int]:
    """Pull a release and install it: the installer's lines, and its exit code."""
    sys.path.append(str(client.program.resolve().parent.parent / "lib"))
    return asyncio.run(asyncio.wait_for(_install(client, image, disk), seconds))


async def _install(client: Client, image: str, disk: str) -> tuple[Sequence[str], int]:
    from talos.api.common.common_pb2 import NS_SYSTEM, ContainerdInstance
    from talos.api.machine import lifecycle_pb2 as pb
    from talos.config.talosconfig.places import open_talosconfig
    from talos.talosctl.client.endpoint import parse_endpoint
    from talos.talosctl.client.session import open_session
    from talos.talosctl.client.target import Target
    from talos.talosctl.commands.image import pull

    assert client.talosconfig is not None
    context = open_talosconfig(str(client.talosconfig))[0].get("vm")
    address = parse_endpoint(f"127.0.0.1:{client.port}")
    target = Target(endpoints=(address,), nodes=(), ca=context.ca, crt=context.crt, key=context.key)
    containerd = ContainerdInstance(namespace=NS_SYSTEM)
    lines: list[str] = []
    async with open_session(target) as session:
        request = pb.LifecycleServiceInstallRequest(
            containerd=containerd,
            source=pb.InstallArtifactsSource(image_name=await pull(session, "", containerd, image)),
            destination=pb.InstallDestination(disk=disk),
        )
        path, reply = "/machine.LifecycleService/Install", pb.LifecycleServiceInstallResponse
        async with session.stream("", path, request, reply) as replies:
            async for part in replies:
                if part.progress.WhichOneof("response") == "exit_code":
                    return lines, part.progress.exit_code
                lines.append(part.progress.message)
    raise AssertionError(f"there was no exit code; lines: {lines}")
