"""What the platform of the machine brings: PlatformConfig, which machined writes."""

from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime

EXTERNAL_LINK = "external"
"""The link, which is none, of addresses that lead to the node from outside."""


async def read_platform(runtime: ControllerRuntime) -> PlatformConfigSpec | None:
    """What it brings at this boot; until that is known, what it brought at an earlier one."""
    found = {resource.id: resource.spec for resource in await runtime.list(kinds.PLATFORM_CONFIG)}
    return found.get(ids.id_of(ids.PLATFORM_CONFIG)) or found.get(ids.id_of(ids.PLATFORM_CONFIG_CACHED))
