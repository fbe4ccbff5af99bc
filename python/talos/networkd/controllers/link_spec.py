"""LinkSpec: links created, configured, enslaved, set up."""

import errno
from collections.abc import Mapping
from typing import Any

from talos.api.definitions.network_pb2 import LinkSpecSpec
from talos.api.definitions.runtime_pb2 import DiagnosticSpec
from talos.config.active import PARTIAL_CONFIG_INPUTS
from talos.networkd.controllers.config_layers import read_devices
from talos.networkd.controllers.kernel import KernelReconciler
from talos.networkd.link_attributes import (
    FIXED,
    NEEDS_DOWN,
    NEEDS_EMPTY,
    find_changes,
    make_creation,
    make_settings,
)
from talos.networkd.wireguard import find_wireguard_change
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, InputStrength, Output
from talos.resource.resource import Phase
from talos.system.logging import Log
from talos.system.net.links import IFF_MULTICAST, LinkError, Links, LinkState, Topic


class LinkSpecController(KernelReconciler):
    """Applies LinkSpecs: creates logical links, and removes them with their spec.

    A device whose spec is removed is left as it is, but for the bond or bridge it was part
    of: calls to this node may come through it.
    """

    name = "network.LinkSpecController"
    inputs = (
        Input(kinds.LINK_SPEC, strength=InputStrength.STRONG),
        Input(kinds.LINK_STATUS),
        *PARTIAL_CONFIG_INPUTS,
    )
    outputs = (Output(kinds.DIAGNOSTIC, shared=True),)
    topics = Topic.LINK

    def __init__(self, links: Links, log: Log) -> None:
        super().__init__(links, log)
        self._there: dict[str, LinkState] = {}
        """The kernel's links by name, as of the last change of this round."""
        self._unicast: frozenset[str] = frozenset()
        """Links whose multicast the config switches off."""
        self._endpoints: dict[tuple[str, str], str] = {}
        """The endpoint that was last wanted of each peer of WireGuard: from there on it may roam."""
        self._unknown: dict[str, str] = {}
        """Links of this round whose kind the kernel lacks, each with its kind."""

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Apply the differences: masters before their ports, parents before their children."""
        resources = await runtime.list(kinds.LINK_SPEC)
        await self._refresh()
        self._unknown = {}
        specs: list[LinkSpecSpec] = []
        for resource in resources:
            if resource.metadata.phase is Phase.TEARING_DOWN:
                await self._remove(resource.spec)
                await runtime.remove_finalizer(kinds.LINK_SPEC, resource.id)
            elif await self.hold(runtime, kinds.LINK_SPEC, resource):
                specs.append(resource.spec)
        self._unicast = (await read_devices(runtime)).unicast
        for spec in sorted(specs, key=_order):
            await self._apply(spec)
        async with runtime.track_outputs():
            for name, kind in sorted(self._unknown.items()):
                await runtime.put(kinds.DIAGNOSTIC, f"link-{name}", make_diagnostic(name, kind))

    async def _refresh(self) -> None:
        self._there = {link.name: link for link in await self.links.links()}

    async def _remove(self, spec: LinkSpecSpec) -> None:
        link = self._there.get(spec.name)
        if link is None:
            return
        if spec.logical and link.kind == spec.kind:
            self.log.info(f"link {spec.name} removed")
            await self.attempt(f"removing link {spec.name}", self.links.remove_link(link.index))
        elif link.master_index:
            await self.attempt(f"freeing link {spec.name}", self.links.set_link(link.index, master=0))
        await self._refresh()

    async def _apply(self, spec: LinkSpecSpec) -> None:
        if spec.logical:
            await self._make(spec)
        link = self._there.get(spec.name)
        if link is None:
            # A missing one is waited for: the kernel sends an event when it is added.
            return
        what = f"link {spec.name}"
        if spec.logical:
            await self._configure(spec, link)
            link = self._there.get(spec.name, link)
        if not await self._join(spec, link):
            return
        link = self._there.get(spec.name, link)
        if spec.hardware_address and spec.hardware_address != link.hardware_address:
            change = self.links.set_link(link.index, hardware_address=spec.hardware_address)
            await self.attempt(f"{what}, hardware address", change)
        mtu = spec.mtu if spec.mtu not in (0, link.mtu) else None
        if mtu is not None:
            self.log.info(f"link {spec.name}: mtu {mtu}")
            await self.attempt(f"{what}, mtu", self.links.set_link(link.index, mtu=mtu))
        has_multicast = bool(link.flags & IFF_MULTICAST)
        multicast = False if spec.name in self._unicast else spec.multicast or has_multicast
        if multicast != has_multicast:
            await self.attempt(f"{what}, multicast", self.links.set_link(link.index, multicast=multicast))
        if spec.up != link.is_up:
            self.log.info(f"link {spec.name}: {'up' if spec.up else 'down'}")
            await self.attempt(f"{what}, up", self.links.set_link(link.index, up=spec.up))

    async def _join(self, spec: LinkSpecSpec, link: LinkState) -> bool:
        """Make the link part of its bond, bridge or VRF, or of none; whether it is."""
        name = _master(spec)
        master = self._there.get(name)
        if name and master is None:
            return False
        wanted = master.index if master is not None else 0
        if wanted == link.master_index or not (wanted or spec.logical or link.slave_kind in _JOINTS):
            return True
        what = f"link {spec.name}"
        if spec.bond_slave.master_name and link.is_up:
            # A bond takes only links that are off.
            await self.attempt(f"{what}, down", self.links.set_link(link.index, up=False))
        if not await self.attempt(f"{what}, master", self.links.set_link(link.index, master=wanted)):
            return False
        self.log.info(f"link {spec.name}: {f'part of {name}' if wanted else 'on its own'}")
        await self._refresh()
        return True

    async def _make(self, spec: LinkSpecSpec) -> None:
        """Create a logical link that is missing, and anew when it can't become what it shall be."""
        parent = self._there.get(spec.parent_name)
        link = self._there.get(spec.name)
        if spec.parent_name and parent is None:
            return
        parent_index = parent.index if parent is not None else 0
        settings = make_settings(spec, {})
        if link is not None:
            if not link.kind:
                await self.attempt(f"link {spec.name}", _refuse(spec))
                del self._there[spec.name]
                return
            if self._is_usable(spec, link, parent_index):
                return
            self.log.info(f"link {spec.name} changes: it is recreated")
            await self.attempt(f"removing link {spec.name}", self.links.remove_link(link.index))
        creation = make_creation(spec, settings, parent_index)
        await self.attempt(f"making {spec.kind} {spec.name}", self._add(spec, creation))
        await self._refresh()

    async def _add(self, spec: LinkSpecSpec, creation: Mapping[str, Any]) -> None:
        try:
            await self.links.add_link(spec.name, creation)
        except LinkError as error:
            if error.errno == errno.EOPNOTSUPP:
                self._unknown[spec.name] = spec.kind
            raise
        self.log.info(f"link {spec.name} made: {spec.kind}")

    def _is_usable(self, spec: LinkSpecSpec, link: LinkState, parent_index: int) -> bool:
        if link.kind != spec.kind or (parent_index and link.parent_index != parent_index):
            return False
        if spec.kind == "veth":
            peer = self._there.get(spec.veth.peer_name)
            return peer is not None and peer.index == link.parent_index
        changes = find_changes(make_settings(spec, {}), dict(link.settings))
        return not changes.keys() & FIXED

    async def _configure(self, spec: LinkSpecSpec, link: LinkState) -> None:
        """Change the settings of a link's kind in place."""
        if spec.kind == "wireguard":
            await self._configure_wireguard(spec)
            return
        ports = {other.name: other for other in self._there.values() if other.master_index == link.index}
        settings = make_settings(spec, {name: port.index for name, port in ports.items()})
        changes = find_changes(settings, dict(link.settings))
        if not changes:
            return
        what = f"link {spec.name}, settings"
        self.log.info(f"link {spec.name}: {', '.join(changes)}")
        if changes.keys() & NEEDS_EMPTY:
            # They are joined again when their specs are applied, which come after this one.
            for name, port in ports.items():
                await self.attempt(f"freeing link {name}", self.links.set_link(port.index, master=0))
        if changes.keys() & (NEEDS_DOWN | NEEDS_EMPTY) and link.is_up:
            await self.attempt(f"{what}, down", self.links.set_link(link.index, up=False))
        change = self.links.set_link(link.index, settings={"kind": spec.kind, **changes})
        await self.attempt(what, change)
        await self._refresh()

    async def _configure_wireguard(self, spec: LinkSpecSpec) -> None:
        try:
            present = await self.links.wireguard(spec.name)
        except LinkError as error:
            self.log.once(f"link {spec.name}: {error.strerror}", key=f"wireguard {spec.name}")
            return
        known = {key: text for (name, key), text in self._endpoints.items() if name == spec.name}
        change = find_wireguard_change(spec.wireguard, present, known)
        if change:
            what = f"link {spec.name}, keys and peers"
            if not await self.attempt(what, self.links.set_wireguard(spec.name, change)):
                return
            self.log.info(f"link {spec.name}: {change.describe()}")
        for peer in spec.wireguard.peers:
            self._endpoints[spec.name, peer.public_key] = peer.endpoint


_JOINTS = frozenset({"bond", "bridge", "vrf"})


def _master(spec: LinkSpecSpec) -> str:
    return spec.bond_slave.master_name or spec.bridge_slave.master_name or spec.vrf_slave.master_name


def _order(spec: LinkSpecSpec) -> tuple[bool, bool, int, str]:
    has_parent, is_port = bool(spec.parent_name), bool(_master(spec))
    return has_parent or is_port, has_parent, spec.bond_slave.slave_index, spec.name


def make_diagnostic(name: str, kind: str) -> DiagnosticSpec:
    """What is shown of a link that this kernel can't make."""
    return DiagnosticSpec(
        message=f"link {name} can't be made: the kernel has no links of the kind {kind}",
        details=[f"remove its document, or use a kernel that has {kind}; a container's is that of its host"],
    )


async def _refuse(spec: LinkSpecSpec) -> None:
    raise LinkError(17, f"{spec.name} is there already, as a device")
