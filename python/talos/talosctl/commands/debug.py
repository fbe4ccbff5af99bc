"""``talosctl debug``."""

import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from google.protobuf.empty_pb2 import Empty

from talos.api.common.common_pb2 import ContainerdInstance
from talos.api.machine.debug_pb2 import DebugContainerRunRequestSpec
from talos.api.machine.image_pb2 import (
    ImageServiceListRequest,
    ImageServiceListResponse,
    ImageServiceRemoveRequest,
)
from talos.client.session import Session
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.attach import run_container
from talos.talosctl.client.command import run_one
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.images import pull_shown, send_archive
from talos.talosctl.commands.image import containerd_of

NAMESPACES = ("inmem", "system")


def run_debug(invocation: Invocation) -> int:
    """Pull or send the image, run it until it ends, and remove it if it was sent."""
    flags = invocation.flags
    if not invocation.args:
        raise UserError("an image tar path or reference is required")
    if flags.text("namespace") not in NAMESPACES:
        hint = f"use {' or '.join(NAMESPACES)}"
        raise UserError(f'there is no namespace "{flags.text("namespace")}"', where="--namespace", hint=hint)
    containerd = containerd_of(flags)
    image = invocation.args[0]
    is_archive = Path(image).exists()

    async def run(session: Session, node: str) -> None:
        if is_archive:
            async with _sent_image(session, node, containerd, Path(image)) as name:
                code = await _run_container(session, node, containerd, name, flags.texts("args"))
        else:
            name = await pull_shown(session, node, containerd, image)
            code = await _run_container(session, node, containerd, name, flags.texts("args"))
        if code:
            raise UserError(f"container exited with code {code}")

    return run_one(invocation, "debug", run)


async def _run_container(
    session: Session, node: str, containerd: ContainerdInstance, image: str, argv: Sequence[str]
) -> int:
    is_terminal = sys.stdin.isatty()
    spec = DebugContainerRunRequestSpec(
        containerd=containerd,
        image_name=image,
        args=argv,
        env={"TERM": os.environ.get("TERM", "")} if is_terminal else {},
        profile=DebugContainerRunRequestSpec.PROFILE_PRIVILEGED,
        tty=is_terminal,
    )
    return await run_container(session, node, spec)


@asynccontextmanager
async def _sent_image(
    session: Session, node: str, containerd: ContainerdInstance, archive: Path
) -> AsyncGenerator[str]:
    """The name that an archive's image has on the node, until the end unless it was there before."""
    method, request = "/machine.ImageService/List", ImageServiceListRequest(containerd=containerd)
    async with session.stream(node, method, request, ImageServiceListResponse) as images:
        before = {found.name async for found in images}
    name = await send_archive(session, node, containerd, archive)
    try:
        yield name
    finally:
        if name not in before:
            removal = ImageServiceRemoveRequest(containerd=containerd, image_ref=name)
            await session.unary(node, "/machine.ImageService/Remove", removal, Empty)


COMMAND = Command(
    name="debug",
    usage="[<image-tar-path|image ref>]",
    summary="Run a container on the node to look around with",
    details=(
        "The container may do all that the node can: the node's files are at /host, its processes, network "
        "and devices are the container's own. It ends with this command. An archive is sent to the node and "
        "removed from it in the end; anything else is pulled by the node."
    ),
    maximum=1,
    flags=(
        *CLIENT_FLAGS,
        Flag(name="args", type=Type.STRINGS, help="run this in place of the image's own command"),
        Flag(
            name="namespace",
            default="inmem",
            help="where the image is kept: inmem for memory, system for the disk",
        ),
    ),
    run=run_debug,
)
