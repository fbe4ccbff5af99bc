"""The machine config from the source that the kernel arguments name."""

from dataclasses import dataclass

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.machined.node.resources import BOOT_CONTROLLER
from talos.machined.platform.config_sources.network_config import parse_network_config
from talos.machined.platform.config_sources.nocloud import (
    LABEL,
    META_DATA,
    NETWORK_CONFIG,
    USER_DATA,
    find_seed,
    parse_hostname,
)
from talos.machined.platform.config_sources.volume import VolumeSource
from talos.machined.platform.config_sources.web import WebSource
from talos.machined.platform.platform import PlatformPort
from talos.resource import ids, kinds
from talos.resource.changes import modify
from talos.resource.state import State
from talos.system.errors import UserError
from talos.system.files import Files

CONFIG = "talos.config"
ISO, ISO_FILE, NONE = "metal-iso", "config.yaml", "none"
NOCLOUD = "nocloud"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSource:
    """Loads the config of the platform."""

    platform: PlatformPort
    state: State
    files: Files
    web: WebSource
    volume: VolumeSource

    async def load(self) -> bytes:
        """The config, empty when there is none. It may take hours.

        Raises:
            UserError: when there could be one, were it not for a mistake.
        """
        brought = self.platform.load_config()
        if brought:
            return brought
        place = (self.platform.arguments.all(CONFIG) or ("",))[-1]
        if place == ISO:
            return (await self.volume.load(ISO, [ISO_FILE])).get(ISO_FILE, b"")
        if place and place != NONE:
            return await self.web.load(place)
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
            await self._set_network(found[NETWORK_CONFIG])
        hostname = seed.get("h") or parse_hostname(found.get(META_DATA, b""))
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

    async def _set_network(self, data: bytes) -> None:
        """Have networkd apply the seed's network; with a mistake in it the node stays on DHCP and says so."""
        links = {
            link.spec.hardware_addr.hex(":"): link.id
            for link in await self.state.list(kinds.LINK_STATUS)
            if link.spec.type == enums.LINK_ETHER and not link.spec.kind
        }
        try:
            wanted = parse_network_config(data, links)
        except UserError as error:
            self.volume.report(f"{error}; it is ignored")
            return

        def change(spec: PlatformConfigSpec) -> None:
            for name in ("links", "addresses", "routes", "operators", "resolvers"):
                spec.ClearField(name)
            spec.MergeFrom(wanted)

        await modify(self.state, *ids.PLATFORM_CONFIG, change, owner=BOOT_CONTROLLER)

    async def _set_hostname(self, hostname: str) -> None:
        def change(spec: PlatformConfigSpec) -> None:
            del spec.hostnames[:]
            spec.hostnames.add(hostname=hostname, config_layer=enums.CONFIG_PLATFORM)
            spec.metadata.hostname = hostname

        await modify(self.state, *ids.PLATFORM_CONFIG, change, owner=BOOT_CONTROLLER)
