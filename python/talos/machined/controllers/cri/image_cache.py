"""ImageCacheConfig: whether images cached on the node are served; and registryd, which serves them."""

from collections.abc import Sequence
from pathlib import Path
from typing import override

import trio

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.cri_pb2 import ImageCacheConfigSpec
from talos.config.active import read_config
from talos.config.effective import machine as effective
from talos.images.cache.layout import MANIFESTS
from talos.images.cache.places import ROOTS
from talos.machined.node.ports import Services
from talos.process.daemons import REGISTRYD
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class ImageCacheConfigController(Reconciler):
    """MachineConfig, the folders of the cache, Service → ImageCacheConfig; registryd runs, or not."""

    name = "cri.ImageCacheConfigController"
    inputs = (
        Input(*ids.MACHINE_CONFIG),
        Input(kinds.SERVICE, id=REGISTRYD.name),
    )
    outputs = (Output(kinds.IMAGE_CACHE_CONFIG),)

    def __init__(self, services: Services, roots: Sequence[Path] = ROOTS) -> None:
        self._services = services
        self._roots = tuple(roots)
        self._is_started = False

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        config = await read_config(runtime)
        is_enabled = config is not None and effective.is_image_cache_enabled(config)
        roots = await trio.to_thread.run_sync(find_roots, self._roots) if is_enabled else []
        spec = ImageCacheConfigSpec(
            status=enums.IMAGE_CACHE_STATUS_DISABLED,
            copy_status=enums.IMAGE_CACHE_COPY_STATUS_SKIPPED,
            roots=roots,
        )
        if roots:
            service = await runtime.get_or_none(kinds.SERVICE, REGISTRYD.name)
            is_ready = self._is_started and service is not None and service.spec.healthy
            spec.status = enums.IMAGE_CACHE_STATUS_READY if is_ready else enums.IMAGE_CACHE_STATUS_PREPARING
        await runtime.put(*ids.IMAGE_CACHE_CONFIG, spec)
        if roots and not self._is_started:
            self._services.start_soon([REGISTRYD.name])
            self._is_started = True
        elif self._is_started and not roots:
            await self._services.halt(REGISTRYD.name)
            self._is_started = False


def find_roots(folders: Sequence[Path]) -> list[str]:
    """The folders that have a cache."""
    return [str(folder) for folder in folders if (folder / MANIFESTS).is_dir()]
