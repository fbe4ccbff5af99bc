"""The machine config from the source that the kernel arguments name."""

from dataclasses import dataclass

import trio

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.machined.node.resources import BOOT_CONTROLLER
from talos.machined.platform.config_sources.network_config import (
    FILE,
    SeedNetwork,
    parse_network_config,
)
from talos.machined.platform.config_sources.nocloud import (
    LABEL,
    META_DATA,
    NETWORK_CONFIG,
    USER_DATA,
    find_seed,
    parse_hostname,
)
from talos.machined.platform.config_sources.volume import VolumeSource
from talos.machined.platform.config_sources.web import Report, WebSource
from talos.machined.platform.platform import PlatformPort
from talos.resource import ids, kinds
from talos.resource.changes import modify
from talos.resource.state import State
from talos.system.errors import UserError
from talos.system.files import Files

CONFIG = "talos.config"
ISO, ISO_FILE, NONE = "metal-iso", "config.yaml", "none"
NOCLOUD = "nocloud"
LINKS_LIMIT = 15.0
"""Seconds to wait for the network cards of a seed: networkd shows them a moment after the disks are known.
A card that appears later is configured then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSource:
    """Loads the config of the platform."""

    platform: PlatformPort
    state: State
    files: Files
    web: WebSource
    volume: VolumeSource
    warn: Report
    """Reports what is wrong with something that the config does not depend on."""
    background: trio.Nursery
    """For what goes on when the config is loaded."""

    async def load(self) -> bytes:
        """The config, empty when there is none. It may take hours.

        UserError: when there could be one, were it not for a mistake.
        """
        brought = self.platform.load_config()
        if brought:
            return brought
        place = (self.platform.arguments.all(CONFIG) or ("",))[-1]
        if place == ISO:
            return (await self.volume.load(ISO, [ISO_FILE])).get(ISO_FILE, b"")
        if place and place != NONE:
            return await self.web.load(place, arguments=self.platform.arguments)
        if self.platform.name == NOCLOUD and not place:
            return await self._load_nocloud()
        return b""

    async def _load_nocloud(self) -> bytes:
        seed = find_seed(self.files, self.platform.arguments)
        url = seed.get("s", "")
        if url:
            base = url if url.endswith("/") else f"{url}/"
            found = {name: await self.web.load(base + name, where=NOCLOUD) for name in (META_DATA, USER_DATA)}
        else:
            # A seed on the web has been reached without a config of the network.
            found = await self.volume.load(LABEL, (META_DATA, USER_DATA, NETWORK_CONFIG))
        if found.get(NETWORK_CONFIG):
            await self.background.start(self._configure_network, found[NETWORK_CONFIG])
        meta_data = found.get(META_DATA, b"")
        hostname = seed.get("h") or await trio.to_thread.run_sync(parse_hostname, meta_data)
        if hostname:
            await self._set_hostname(hostname)
        text = found.get(USER_DATA, b"")
        if text.lstrip().startswith(b"#cloud-config"):
            raise UserError(
                "this is for cloud-init",
                where=USER_DATA,
                hint="it has to be a machine config: talosctl gen config",
            )
        return text

    async def _configure_network(
        self, data: bytes, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Have networkd apply the seed's network, and again whenever one of its missing cards appears.

        Has started when the first is done, at LINKS_LIMIT at the latest. With a mistake in the seed the node
        stays on DHCP and logs it.
        """
        try:
            async with self.state.watch(kinds.LINK_STATUS) as changes:
                found = await self._read_network(data)
                if found.missing:
                    with trio.move_on_after(LINKS_LIMIT):
                        async for _ in changes:
                            found = await self._read_network(data)
                            if not found.missing:
                                break
                for hardware in found.missing:
                    self.warn(f"{FILE}: no network card has the hardware address {hardware!r} yet")
                await self._set_network(found)
                task_status.started()
                if found.missing:
                    async for _ in changes:
                        before, found = found, await self._read_network(data)
                        if found.missing != before.missing:
                            await self._set_network(found)
                        if not found.missing:
                            break
        except UserError as error:
            self.warn(f"{error}; it is ignored")
            task_status.started()

    async def _read_network(self, data: bytes) -> SeedNetwork:
        """The seed's network with the cards that are there now. UserError."""
        return parse_network_config(data, await self._list_cards())

    async def _set_network(self, wanted: SeedNetwork) -> None:
        def change(spec: PlatformConfigSpec) -> None:
            for name in ("links", "addresses", "routes", "operators", "resolvers"):
                spec.ClearField(name)
            spec.MergeFrom(wanted.spec)

        await modify(self.state, *ids.PLATFORM_CONFIG, change, owner=BOOT_CONTROLLER)

    async def _list_cards(self) -> dict[str, str]:
        """Names of network cards by the address they were made with: those of a bond share another one."""
        return {
            (link.spec.permanent_addr or link.spec.hardware_addr).hex(":"): link.id
            for link in await self.state.list(kinds.LINK_STATUS)
            if link.spec.type == enums.LINK_ETHER and not link.spec.kind
        }

    async def _set_hostname(self, hostname: str) -> None:
        def change(spec: PlatformConfigSpec) -> None:
            del spec.hostnames[:]
            spec.hostnames.add(hostname=hostname, config_layer=enums.CONFIG_PLATFORM)
            spec.metadata.hostname = hostname

        await modify(self.state, *ids.PLATFORM_CONFIG, change, owner=BOOT_CONTROLLER)
