"""Images that a node gets: pulled from a registry, or sent as an archive."""

from collections.abc import AsyncGenerator
from os import SEEK_END
from pathlib import Path

from talos.api.common.common_pb2 import ContainerdInstance, Data
from talos.api.machine.image_pb2 import ImageServiceImportRequest, ImageServiceImportResponse
from talos.client.session import Session
from talos.fleet.calls import pull_image
from talos.system.sizes import format_pretty_size
from talos.talosctl.client.health import SessionCalls
from talos.talosctl.output import console

CHUNK = 256 * 1024
"""Bytes of an archive in a message."""


async def pull_shown(session: Session, node: str, containerd: ContainerdInstance, image: str) -> str:
    """Pull an image, show how far it is, report it; returns its full name."""
    name = await pull_image(
        SessionCalls(session), node, containerd, image, lambda text: console.show_progress(f"{node}: {text}")
    )
    console.show_progress("")
    console.note(f"{node}: pulled image {name}")
    return name


async def send_archive(session: Session, node: str, containerd: ContainerdInstance, path: Path) -> str:
    """Send an OCI archive to a node, show how far it is; the name of its image."""

    async def chunks() -> AsyncGenerator[ImageServiceImportRequest]:
        yield ImageServiceImportRequest(containerd=containerd)
        with path.open("rb") as file:
            size = file.seek(0, SEEK_END)
            file.seek(0)
            while chunk := file.read(CHUNK):
                yield ImageServiceImportRequest(image_chunk=Data(bytes=chunk))
                sent = f"{format_pretty_size(file.tell())} of {format_pretty_size(size)}"
                console.show_progress(f"{node}: {sent}")

    reply = await session.upload(node, "/machine.ImageService/Import", chunks(), ImageServiceImportResponse)
    console.show_progress("")
    console.note(f"{node}: has {reply.name} of {path}")
    return reply.name
