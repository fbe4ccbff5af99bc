"""A service whose process is a container: its image is there, its group is there, then it runs."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from talos.images.reference import parse_reference
from talos.machined.containerd.client import SYSTEM, Connect, Containerd, find_root, open_namespace
from talos.machined.containerd.container import SHIM_GROUP, ContainerProcess, Placement, run_container
from talos.machined.containerd.pull import pull_image, read_sources
from talos.machined.containerd.store import Image, find_image
from talos.machined.containerd.verify.search import Verifier
from talos.machined.services.spec import RunContainer, ServiceContext, ServiceSpec
from talos.system.cgroups import Groups, SplitGroups


@asynccontextmanager
async def start_container(
    start: RunContainer,
    service: ServiceSpec,
    context: ServiceContext,
    connect: Connect,
    groups: Groups,
    output: str,
    report: Callable[[str], None],
) -> AsyncGenerator[ContainerProcess]:
    """Run a service's container for as long as the context is open; UserError, RpcError, OSError.

    ``output`` is the named pipe that takes what it writes; ``report`` is called before what takes long.
    """
    spec = await start.make(context)
    async with connect(start.socket) as transport:
        containerd = open_namespace(transport, start.socket, SYSTEM, context.workloads)
        image = None
        if not spec.rootfs:
            image = await find_or_pull(containerd, spec.image, find_root(start.socket), context, report)
        # The runtime removes the group with every container.
        groups.create(service.group, service.limits)
        placement = Placement(
            id=service.id,
            group=service.group,
            oom_score_adj=service.oom_score_adj,
            output=output,
            # Version 1 has hierarchies in which no group of ours exists: a shim could not join them.
            shim_group="" if isinstance(groups, SplitGroups) else SHIM_GROUP,
        )
        async with run_container(containerd, spec, image, placement) as child:
            yield child


async def find_or_pull(
    containerd: Containerd,
    reference: str,
    root: str,
    context: ServiceContext,
    report: Callable[[str], None] = lambda _: None,
) -> Image:
    """An image that is complete, pulled if it isn't there; ``root`` and errors as of :func:`pull_image`."""
    name = str(parse_reference(reference))
    image = await find_image(containerd, name)
    if image is None:
        report(f"Pulling image {name}")
        sources = await read_sources(context.state)
        verifier = Verifier(run=context.processes.capture, state=context.state)
        image = await pull_image(containerd, name, sources, root=root, verifier=verifier)
    return image
