"""LinkSpec: links created, enslaved, set up, with their MTU."""

from talos.api.definitions.network_pb2 import LinkSpecSpec
from talos.networkd.controllers.kernel import KernelReconciler
from talos.networkd.link_attributes import make_link_attributes
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Strength
from talos.resource.resource import Phase
from talos.system.logging import Log
from talos.system.net.links import LinkError, Links, LinkState, Topic


class LinkSpecController(KernelReconciler):
    """Applies LinkSpecs: creates logical links, and removes them with their spec.

    A device whose spec is removed is left as it is, but for the bond or bridge it was part
    of: calls to this node may come through it.
    """

    name = "network.LinkSpecController"
    inputs = (Input(kinds.LINK_SPEC, strength=Strength.STRONG),)
    topics = Topic.LINK

    def __init__(self, links: Links, log: Log) -> None:
        super().__init__(links, log)
        self._made: dict[str, str] = {}
        """The settings with which each logical link was created; it is recreated when they change."""

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Apply the differences: masters before their ports, parents before their children."""
        resources = await runtime.list(kinds.LINK_SPEC)
        for resource in resources:
            if resource.metadata.phase is Phase.TEARING_DOWN:
                await self._remove(resource.spec)
                await runtime.remove_finalizer(kinds.LINK_SPEC, resource.id)
            elif self.name not in resource.metadata.finalizers:
                await runtime.add_finalizer(kinds.LINK_SPEC, resource.id)
        specs = [resource.spec for resource in resources if resource.metadata.phase is Phase.RUNNING]
        for spec in sorted(specs, key=_order):
            await self._apply(spec)

    async def _find(self, name: str) -> LinkState | None:
        if not name:
            return None
        return next((link for link in await self.links.links() if link.name == name), None)

    async def _remove(self, spec: LinkSpecSpec) -> None:
        self._made.pop(spec.name, None)
        link = await self._find(spec.name)
        if link is None:
            return
        if spec.logical and link.kind == spec.kind:
            self.log.info(f"link {spec.name} removed")
            await self.attempt(f"removing link {spec.name}", self.links.remove_link(link.index))
        elif link.master_index:
            await self.attempt(f"freeing link {spec.name}", self.links.set_link(link.index, master=0))

    async def _apply(self, spec: LinkSpecSpec) -> None:
        link = await self._find(spec.name)
        if spec.logical:
            link = await self._make(spec, link)
        if link is None:
            # A missing one is waited for: the kernel sends an event when it is added.
            return
        what = f"link {spec.name}"
        master = await self._find(_master(spec))
        if _master(spec) and master is None:
            return
        wanted = master.index if master is not None else 0
        if wanted != link.master_index and (wanted or spec.name in self._made or link.slave_kind in _JOINTS):
            if spec.bond_slave.master_name and link.is_up:
                # A bond takes only links that are off.
                await self.attempt(f"{what}, down", self.links.set_link(link.index, up=False))
            if not await self.attempt(f"{what}, master", self.links.set_link(link.index, master=wanted)):
                return
            self.log.info(f"link {spec.name}: {f'part of {_master(spec)}' if wanted else 'on its own'}")
            link = await self._find(spec.name) or link
        if spec.hardware_address and spec.hardware_address != link.hardware_address:
            change = self.links.set_link(link.index, hardware_address=spec.hardware_address)
            await self.attempt(f"{what}, hardware address", change)
        mtu = spec.mtu if spec.mtu not in (0, link.mtu) else None
        if mtu is not None:
            self.log.info(f"link {spec.name}: mtu {mtu}")
            await self.attempt(f"{what}, mtu", self.links.set_link(link.index, mtu=mtu))
        if spec.up != link.is_up:
            self.log.info(f"link {spec.name}: {'up' if spec.up else 'down'}")
            await self.attempt(f"{what}, up", self.links.set_link(link.index, up=spec.up))

    async def _make(self, spec: LinkSpecSpec, link: LinkState | None) -> LinkState | None:
        parent = await self._find(spec.parent_name)
        if spec.parent_name and parent is None:
            return None
        attributes = make_link_attributes(spec, parent.index if parent is not None else 0)
        key = repr(attributes)
        if link is not None:
            if link.kind != spec.kind:
                await self.attempt(f"link {spec.name}", _refuse(spec, link))
                return None
            # One that is up was made by an earlier run of networkd; bond0 and dummy0 come with the
            # kernel's modules, with settings of their own, and are off.
            if link.is_up:
                self._made.setdefault(spec.name, key)
            if self._made.get(spec.name) == key:
                return link
            self.log.info(f"link {spec.name} changes: it is recreated")
            await self.attempt(f"removing link {spec.name}", self.links.remove_link(link.index))
        self.log.info(f"link {spec.name} made: {spec.kind}")
        if not await self.attempt(
            f"making {spec.kind} {spec.name}", self.links.add_link(spec.name, attributes)
        ):
            return None
        self._made[spec.name] = key
        return await self._find(spec.name)


_JOINTS = frozenset({"bond", "bridge", "vrf"})


def _master(spec: LinkSpecSpec) -> str:
    return spec.bond_slave.master_name or spec.bridge_slave.master_name or spec.vrf_slave.master_name


def _order(spec: LinkSpecSpec) -> tuple[bool, bool, int, str]:
    has_parent, is_port = bool(spec.parent_name), bool(_master(spec))
    return has_parent or is_port, has_parent, spec.bond_slave.slave_index, spec.name


async def _refuse(spec: LinkSpecSpec, link: LinkState) -> None:
    raise LinkError(17, f"{spec.name} is there already, as {link.kind or 'a device'}")
