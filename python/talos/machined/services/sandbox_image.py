"""The image that each pod begins with, which containerd pulls by itself, whatever the rules of the config.

Where there are rules it is pulled by them before the kubelet starts any pod; containerd then has it.
"""

from collections.abc import Iterator
from pathlib import Path

import trio

from talos.config.active import load_config
from talos.extensions.cri import PARTS
from talos.images.reference import parse_reference
from talos.images.rules import make_rules
from talos.machined.containerd.client import CRI_ROOT, CRI_SOCKET, PODS, Containerd
from talos.machined.containerd.config import MERGED, find_sandbox_image, make_path
from talos.machined.containerd.toml import Table, parse_toml
from talos.machined.services.container import find_or_pull
from talos.machined.services.spec import ServiceContext


async def pull_sandbox_image(context: ServiceContext) -> None:
    """Pull it if it isn't there and there are rules; UserError, RpcError."""
    if not make_rules(await load_config(context.state)):
        return
    image = await trio.to_thread.run_sync(lambda: find_sandbox_image(read_settings(Path("/"))))
    async with context.connect(CRI_SOCKET) as transport:
        name = str(parse_reference(image).stored)
        await find_or_pull(Containerd(transport, PODS), name, CRI_ROOT, context)


def read_settings(root: Path) -> Iterator[Table]:
    """The files of containerd's settings, in the order in which it applies them."""
    folder, pattern = root / PARTS.lstrip("/"), Path(make_path("*")).name
    for path in (root / MERGED.lstrip("/"), *sorted(folder.glob(pattern))):
        yield parse_toml(path.read_text(encoding="utf-8"))
