"""The machine config from the source that the kernel arguments name."""

from dataclasses import dataclass

from talos.machined.platform.clouds.cloud import Source
from talos.machined.platform.clouds.registry import find_cloud
from talos.machined.platform.config_sources.web import WebSource
from talos.machined.platform.platform import PlatformPort

CONFIG = "talos.config"
ISO, ISO_FILE, NONE = "metal-iso", "config.yaml", "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSource:
    """Loads the config of the platform."""

    platform: PlatformPort
    web: WebSource
    cloud: Source

    async def load(self) -> bytes:
        """The config, empty when there is none. It may take hours.

        UserError: when there could be one, were it not for a mistake.
        """
        brought = self.platform.load_config()
        if brought:
            return brought
        place = (self.platform.arguments.all(CONFIG) or ("",))[-1]
        if place == ISO:
            return (await self.cloud.volume.load(ISO, [ISO_FILE])).get(ISO_FILE, b"")
        if place and place != NONE:
            return await self.web.load(place, arguments=self.platform.arguments)
        cloud = find_cloud(self.platform.name)
        if cloud is not None and not place:
            return await cloud.load_config(self.cloud)
        return b""
