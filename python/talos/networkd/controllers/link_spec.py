"""Links as they should be: switched on, with their MTU."""

import logging

from talos.networkd.controllers.kernel import KernelReconciler
from talos.resource import kinds
from talos.resource.controller import ControllerRuntime, Input
from talos.resource.resource import Phase
from talos.system.links import Topic

log = logging.getLogger(__name__)


class LinkSpecController(KernelReconciler):
    """Applies LinkSpecs to links that are there.

    A link whose spec goes away is left as it is: somebody may be talking to us through it.
    """

    name = "network.LinkSpecController"
    inputs = (Input(kinds.LINK_SPEC),)
    topics = Topic.LINK

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Change what differs."""
        links = {link.name: link for link in await self.links.links()}
        for resource in await runtime.list(kinds.LINK_SPEC):
            spec, link = resource.spec, links.get(resource.spec.name)
            if resource.metadata.phase is Phase.TEARING_DOWN or link is None:
                # One that isn't there yet is waited for; the kernel tells when it comes.
                continue
            up = spec.up if spec.up != link.is_up else None
            mtu = spec.mtu if spec.mtu not in (0, link.mtu) else None
            if up is not None or mtu is not None:
                log.info("link %s: up %s, mtu %s", spec.name, spec.up, spec.mtu or "as it is")
                await self.links.set_link(link.index, up=up, mtu=mtu)
