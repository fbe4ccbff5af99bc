"""ImageCacheConfig: whether images cached on the node are served; and registryd, which serves them."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import override

import trio

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.cri_pb2 import ImageCacheConfigSpec
from talos.api.definitions.runtime_pb2 import DiagnosticSpec
from talos.config.active import read_config
from talos.config.effective import machine as effective
from talos.disks.devices import are_devices_ready
from talos.disks.image_cache import CacheDisks, find_media
from talos.images.cache.layout import MANIFESTS
from talos.images.cache.places import ROOTS, VOLUME
from talos.machined.node.ports.services import Services
from talos.process.daemons import REGISTRYD
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.system.errors import UserError
from talos.system.logging import Log

COPY_RETRY_DELAY = 30.0
"""Seconds after which a copy that failed is tried again."""
DIAGNOSTIC = "image-cache"
"""That of a copy that failed."""
_SETTLED = frozenset({enums.VOLUME_PHASE_READY, enums.VOLUME_PHASE_MISSING, enums.VOLUME_PHASE_FAILED})


class ImageCacheConfigController(Controller):
    """MachineConfig, the cache's folders, Service → ImageCacheConfig, Diagnostic; registryd runs, or not.

    On a machine with ``disks`` the cache is on the medium with the installer, or on the volume IMAGECACHE, to
    which it is copied.
    """

    name = "cri.ImageCacheConfigController"
    inputs = (
        Input(*ids.MACHINE_CONFIG),
        Input(kinds.SERVICE, id=REGISTRYD.name),
        Input(*ids.DEVICES_STATUS),
        Input(kinds.DISCOVERED_VOLUME),
        Input(kinds.VOLUME_STATUS, id=VOLUME),
        Input(kinds.VOLUME_MOUNT_STATUS),
    )
    outputs = (Output(kinds.IMAGE_CACHE_CONFIG), Output(kinds.DIAGNOSTIC, shared=True))

    def __init__(
        self, services: Services, disks: CacheDisks | None, log: Log, roots: tuple[Path, Path] = ROOTS
    ) -> None:
        self._services = services
        self._disks = disks
        self._log = log
        self._disk, self._medium = self._roots = tuple(roots)
        self._is_started = False
        self._copy_status = enums.IMAGE_CACHE_COPY_STATUS_UNKNOWN
        self._copying = trio.CancelScope()
        self._failure = ""

    @override
    async def run(self, runtime: ControllerRuntime) -> None:
        async with trio.open_nursery() as nursery:
            async for _ in runtime.events():
                await self._reconcile(runtime, nursery)
                runtime.reset_backoff()

    async def _reconcile(self, runtime: ControllerRuntime, nursery: trio.Nursery) -> None:
        config = await read_config(runtime)
        is_enabled = config is not None and effective.is_image_cache_enabled(config)
        is_settled = not is_enabled or self._disks is None or await self._find_disks(runtime, self._disks)
        if not is_enabled:
            self._copying.cancel()
        roots = await trio.to_thread.run_sync(find_roots, self._roots) if is_enabled else []
        service = await runtime.get_or_none(kinds.SERVICE, REGISTRYD.name)
        is_served = self._is_started and service is not None and service.spec.healthy
        spec = ImageCacheConfigSpec(status=enums.IMAGE_CACHE_STATUS_DISABLED, roots=roots)
        if roots and is_served:
            spec.status = enums.IMAGE_CACHE_STATUS_READY
        elif roots or not is_settled:
            spec.status = enums.IMAGE_CACHE_STATUS_PREPARING
        is_new = self._copy_status == enums.IMAGE_CACHE_COPY_STATUS_UNKNOWN
        if is_new and self._disks is not None and str(self._medium) in roots and await _is_mounted(runtime):
            self._copy_status = enums.IMAGE_CACHE_COPY_STATUS_PENDING
            self._copying = trio.CancelScope()
            nursery.start_soon(self._copy, self._disks, runtime)
        elif is_new and is_settled:
            spec.copy_status = enums.IMAGE_CACHE_COPY_STATUS_SKIPPED
        spec.copy_status = self._copy_status or spec.copy_status
        async with runtime.track_outputs():
            await runtime.put(*ids.IMAGE_CACHE_CONFIG, spec)
            if self._failure:
                message = "the cache of images is not copied to the disk"
                diagnostic = DiagnosticSpec(message=message, details=[self._failure])
                await runtime.put(kinds.DIAGNOSTIC, DIAGNOSTIC, diagnostic)
        await self._serve(is_wanted=bool(roots))

    async def _serve(self, *, is_wanted: bool) -> None:
        if is_wanted and not self._is_started:
            self._services.start_soon([REGISTRYD.name])
            self._is_started = True
        elif self._is_started and not is_wanted:
            await self._services.halt(REGISTRYD.name)
            self._is_started = False

    async def _find_disks(self, runtime: ControllerRuntime, disks: CacheDisks) -> bool:
        """Mount the medium that has a cache; whether all that may hold a cache is known and mounted."""
        if not await are_devices_ready(runtime):
            return False
        for medium in find_media([one.spec for one in await runtime.list(kinds.DISCOVERED_VOLUME)]):
            try:
                await trio.to_thread.run_sync(disks.mount_medium, medium)
            except OSError as error:
                reason = error.strerror or str(error)
                self._log.once("the medium with the installer can't be mounted", device=medium, reason=reason)
        volume = await runtime.get_or_none(kinds.VOLUME_STATUS, VOLUME)
        if volume is None or volume.spec.phase not in _SETTLED:
            return False
        return volume.spec.phase != enums.VOLUME_PHASE_READY or await _is_mounted(runtime)

    async def _copy(self, disks: CacheDisks, runtime: ControllerRuntime) -> None:
        """Copy the medium's cache to the volume; once a boot, until it succeeds or is not wanted any more."""
        status, stop = enums.IMAGE_CACHE_COPY_STATUS_UNKNOWN, threading.Event()
        copy = partial(disks.copy, self._medium, self._disk, stop.is_set)
        try:
            with self._copying:
                count = None
                while count is None:
                    count = await self._try_to_copy(copy, runtime)
                self._log.info("the cache of images is on the disk", copied=count)
                status = enums.IMAGE_CACHE_COPY_STATUS_READY
        finally:
            stop.set()
            self._copy_status, self._failure = status, ""
        runtime.queue_reconcile()

    async def _try_to_copy(self, copy: Callable[[], int], runtime: ControllerRuntime) -> int | None:
        """How many files were copied; None when it failed, after a pause."""
        try:
            return await trio.to_thread.run_sync(copy, abandon_on_cancel=True)
        except (OSError, UserError) as error:
            self._failure = str(error)
            self._log.once("the cache of images is not copied to the disk", reason=self._failure)
            runtime.queue_reconcile()
            await trio.sleep(COPY_RETRY_DELAY)
            return None


async def _is_mounted(runtime: ControllerRuntime) -> bool:
    mounts = await runtime.list(kinds.VOLUME_MOUNT_STATUS)
    return any(mount.spec.volume_id == VOLUME for mount in mounts)


def find_roots(folders: Sequence[Path]) -> list[str]:
    """The folders that have a cache."""
    return [str(folder) for folder in folders if (folder / MANIFESTS).is_dir()]
