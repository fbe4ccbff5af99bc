"""The clouds by the names that ``talos.platform`` has for them."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from talos.machined.platform.clouds.cloud import Cloud

MODULES: Mapping[str, str] = {
    "akamai": "akamai",
    "alibabacloud": "alibabacloud",
    "aws": "aws",
    "azure": "azure",
    "cloudstack": "cloudstack",
    "digital-ocean": "digital_ocean",
    "exoscale": "exoscale",
    "gcp": "gcp",
    "hcloud": "hcloud",
    "nocloud": "nocloud",
    "opennebula": "opennebula",
    "openstack": "openstack",
    "oracle": "oracle",
    "scaleway": "scaleway",
    "upcloud": "upcloud",
    "vultr": "vultr",
}
"""A machine is of one cloud at most, so a module is imported when it is needed."""


def find_cloud(platform: str) -> "Cloud | None":
    """The cloud of a platform; None for ``metal`` and containers."""
    module = MODULES.get(platform)
    if module is None:
        return None
    return cast("Cloud", import_module(f"talos.machined.platform.clouds.{module}").CLOUD)
