"""Pulls wait for the node's cache of images: without a network, an attempt before it is served is lost."""

from collections.abc import Mapping

import trio

from talos.api.definitions import cri_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.images.cache.places import ENDPOINT, HOST
from talos.images.registry.hosts import ANY
from talos.resource import ids
from talos.resource.changes import wait_for
from talos.resource.resource import Resource
from talos.resource.state import NotFoundError, State

READY_TIMEOUT = 60.0
"""Seconds after which images are pulled without a cache that is not served."""


async def wait_for_cache(state: State) -> None:
    """Wait until a cache that is being prepared is served, and tried before all others; up to a limit."""
    try:
        status = (await state.get(*ids.IMAGE_CACHE_CONFIG)).spec.status
    except NotFoundError:
        return
    with trio.move_on_after(READY_TIMEOUT):
        if status == enums.IMAGE_CACHE_STATUS_PREPARING:
            status = (await wait_for(state, *ids.IMAGE_CACHE_CONFIG, _is_prepared)).spec.status
        if status == enums.IMAGE_CACHE_STATUS_READY:
            await wait_for(state, *ids.REGISTRY_CONFIG, _has_cache)


def bypass_proxies(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The variables with which no proxy is used for the cache; containerd does that by itself."""
    found = {name.lower(): value for name, value in environment.items()}
    return {**found, "no_proxy": ",".join(filter(None, (found.get("no_proxy"), HOST)))}


def _is_prepared(cache: Resource[cri_pb2.ImageCacheConfigSpec]) -> bool:
    return cache.spec.status != enums.IMAGE_CACHE_STATUS_PREPARING


def _has_cache(registries: Resource[cri_pb2.RegistriesConfigSpec]) -> bool:
    mirror = registries.spec.registry_mirrors.get(ANY)
    return bool(mirror and any(one.endpoint_endpoint == ENDPOINT for one in mirror.mirror_endpoints))
