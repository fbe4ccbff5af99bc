"""The node's root with an image's programs, for as long as a debug container runs in it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import trio

from talos.api.rpc import Code, RpcError
from talos.machined.containerd.client import Containerd
from talos.machined.containerd.container import hold_snapshot, remove_at_end
from talos.machined.containerd.store import Image
from talos.system.host_root import build_root, find_root, remove_root

RESOLV_CONF = "etc/resolv.conf"
NIX_CONF = b"""\
# No group of users that build, and no sandbox, as the node has neither.
build-users-group =
sandbox = false
experimental-features = nix-command flakes
"""


@asynccontextmanager
async def open_image_root(containerd: Containerd, image: Image, id: str) -> AsyncGenerator[str]:
    """Where the root is mounted as long as the context is open; then nothing of it is left.

    FAILED_PRECONDITION: the node can't mount it, such as before it has a disk. UserError: the image has no
    such programs. ``id`` is the container's.
    """
    holder = f"{id}-root"
    try:
        mounts = await hold_snapshot(containerd, image, holder)
        options = [option for mount in mounts if mount.type == "overlay" for option in mount.options]
        try:
            await trio.to_thread.run_sync(_build, id, options)
            yield str(find_root(id))
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(remove_root, id)
    finally:
        await remove_at_end(containerd, holder)


def _build(container_id: str, options: list[str]) -> None:
    files = {"etc/nix/nix.conf": NIX_CONF}
    with suppress(FileNotFoundError):
        files[RESOLV_CONF] = Path("/", RESOLV_CONF).read_bytes()
    try:
        build_root(container_id, options, files)
    except OSError as error:
        raise RpcError(Code.FAILED_PRECONDITION, f"the container's root can't be mounted: {error}") from None
