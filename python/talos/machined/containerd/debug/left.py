"""Debug containers of earlier boots, which ended without a shutdown."""

import re
from collections.abc import Set as AbstractSet

import trio

from talos.api.containerd import containers_pb2
from talos.machined.containerd.client import Containerd
from talos.machined.containerd.container import remove_container
from talos.system.host_root import remove_left_layers

_FILTER = 'id~="^debug-"'
_ID = re.compile(r"(debug-[0-9a-f]{16})(-root)?")


async def remove_left(containerd: Containerd, running: AbstractSet[str]) -> None:
    """Remove all that are not among those ``running``, from a namespace and from the disk. RpcError."""
    listed = await containerd.call(
        "containers.v1.Containers/List",
        containers_pb2.ListContainersRequest(filters=[_FILTER]),
        containers_pb2.ListContainersResponse,
    )
    for container in listed.containers:
        found = _ID.fullmatch(container.id)
        if found and found[1] not in running:
            await remove_container(containerd, container.id)
    await trio.to_thread.run_sync(remove_left_layers, running)
