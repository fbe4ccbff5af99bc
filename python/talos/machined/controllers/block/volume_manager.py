"""VolumeManagerController: from the specs of volumes to their mounts."""

import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath

import trio

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.disk import read_disks
from talos.disks.installation import find_installed
from talos.disks.volumes.blocks import Blocks
from talos.disks.volumes.choice import choose_device, choose_disks
from talos.disks.volumes.crypt_devices import CryptDevices
from talos.disks.volumes.encryption import VolumeEncryption
from talos.disks.volumes.encryption_keys import KeyPendingError
from talos.disks.volumes.existing import find_existing, is_read_only, open_existing
from talos.disks.volumes.external import make_external_place
from talos.disks.volumes.mounting import CHANGEABLE, make_options, make_point, mount_volume, unmount_volume
from talos.disks.volumes.scrubber import Scrubber
from talos.disks.volumes.settle import (
    FILESYSTEM,
    SWAP,
    VolumePlace,
    VolumeProgress,
    WantedVolume,
    find,
    settle,
)
from talos.disks.volumes.specs import (
    DEVICE,
    NO_ACCESS_TIMES,
    NUMBER,
    OBSTACLE,
    READ_ONLY,
    SELECTOR,
    VOLUME_SELECTOR,
    has_parameter,
)
from talos.disks.volumes.status import (
    VolumeState,
    fill_mount,
    fill_runtime_mount,
    fill_status,
    make_wanted_volume,
)
from talos.disks.volumes.user import USER_VOLUMES, find_place, is_mounted, is_user_volume
from talos.disks.volumes.whole_disk import settle_disk
from talos.images.cache.places import VOLUME as IMAGE_CACHE
from talos.machined.controllers.block.encryption import EncryptionKeeper
from talos.machined.controllers.block.key_service import KeyService
from talos.machined.node.key_requests import KeyRequests
from talos.machined.node.meta_store import MetaStore
from talos.resource import ids, kinds
from talos.resource.controller.controller import (
    Controller,
    ControllerRuntime,
    Input,
    Output,
    Strength,
)
from talos.resource.resource import Phase, Resource
from talos.resource.state import State
from talos.system.block.layout import EPHEMERAL, META, STATE
from talos.system.errors import UserError
from talos.system.files import KernelFiles
from talos.system.logging import Log
from talos.system.mounts import Mounts
from talos.system.proc.processes import find_holders
from talos.system.wakeup import Wakeup

RETRY = 15.0
"""Seconds after which a volume that failed is tried again, if nothing changes before."""

_PLAIN = frozenset({enums.VOLUME_TYPE_DIRECTORY, enums.VOLUME_TYPE_SYMLINK})
"""Kinds of volumes that need no disk."""

type _Config = Resource[block_pb2.VolumeConfigSpec]
type _Requests = Sequence[Resource[block_pb2.VolumeMountRequestSpec]]


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeContext:
    """The dependencies of the controller.

    ``refresh`` requests a rescan of the disks, ``make_folder`` makes a folder with a mode if there is none,
    ``devices`` are the encrypted ones, ``scrubber`` checks mounted ones.
    """

    state: State
    blocks: Blocks
    mounts: Mounts
    refresh: Callable[[], Awaitable[None]]
    make_folder: Callable[[str, int], None]
    devices: CryptDevices
    meta: MetaStore
    keys: KeyRequests
    scrubber: Scrubber
    log: Log


class VolumeManagerController(Controller):
    """Locates, makes, formats, grows and mounts volumes; unmounts them at the machine's end.

    Disks are written to only for a volume whose mount was requested, and for raw ones and swap. What is
    used stays as it is until the end, but for a user's volume, which ends with its document.
    """

    name = "block.VolumeManagerController"
    inputs = (
        Input(kinds.VOLUME_CONFIG),
        Input(kinds.VOLUME_MOUNT_REQUEST),
        Input(*ids.VOLUME_LIFECYCLE, strength=Strength.STRONG),
        Input(*ids.DEVICES_STATUS),
        Input(kinds.DISK),
        Input(kinds.DISCOVERED_VOLUME),
        Input(*ids.META_LOAD),
        Input(*ids.SYSTEM_INFORMATION),
        Input(*ids.ENCRYPTION_SALT),
    )
    outputs = (
        Output(kinds.VOLUME_STATUS),
        Output(kinds.VOLUME_MOUNT_STATUS),
        Output(kinds.BLOCK_MOUNT_STATUS),
        Output(kinds.MOUNT_STATUS),
    )

    def __init__(self, context: VolumeContext) -> None:
        self._context = context
        self._used: dict[str, VolumeState] = {}
        self._failures: dict[str, str] = {}
        self._answers = Wakeup()
        service = KeyService(context.keys, self._answers.set)
        self._service = service
        self._encryption = EncryptionKeeper(context.devices, context.meta, service, context.log)

    async def run(self, runtime: ControllerRuntime) -> None:
        """Reconcile until the volume lifecycle is torn down. Keys are asked for beside it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._service.run)
            await self._run(runtime)
            nursery.cancel_scope.cancel()

    async def _wait(self, runtime: ControllerRuntime) -> None:
        """Wait for a change, an answer to a request for a key, or until what failed is to be tried again."""

        async def wait_for(what: Callable[[], Awaitable[None]]) -> None:
            await what()
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.deadline = trio.current_time() + (RETRY if self._failures else math.inf)
            nursery.start_soon(wait_for, runtime.wait_for_round)
            nursery.start_soon(wait_for, self._answers.wait)

    async def _run(self, runtime: ControllerRuntime) -> None:
        while True:
            await self._wait(runtime)
            lifecycle = await runtime.get_or_none(*ids.VOLUME_LIFECYCLE)
            if lifecycle is None:
                continue
            if lifecycle.metadata.phase is Phase.TEARING_DOWN:
                await self._finish()
                async with runtime.track_outputs():
                    pass
                await runtime.remove_finalizer(*ids.VOLUME_LIFECYCLE)
                return
            await runtime.add_finalizer(*ids.VOLUME_LIFECYCLE)
            await self._keep_all(runtime)
            runtime.reset_backoff()

    async def _keep_all(self, runtime: ControllerRuntime) -> None:
        requests = await runtime.list(kinds.VOLUME_MOUNT_REQUEST)
        configs = await runtime.list(kinds.VOLUME_CONFIG)
        await self._release({config.id for config in configs})
        async with runtime.track_outputs():
            for config in sorted(configs, key=_order):
                wanted = [request for request in requests if request.spec.volume_id == config.id]
                is_device = is_user_volume(config.spec) and not is_mounted(config.spec)
                current = await self._keep(runtime, config, is_wanted=bool(wanted) or is_device)
                await self._publish(runtime, config, current, wanted)

    async def _keep(self, runtime: ControllerRuntime, config: _Config, *, is_wanted: bool) -> VolumeState:
        current = self._used.get(config.id)
        # One that could be unmounted, but not locked, begins anew when its document comes back.
        if current is not None and (current.target or not is_mounted(config.spec)):
            await self._encryption.keep(runtime, config, current)
            if is_mounted(config.spec):
                await self._keep_options(config, current)
            return current
        progress = VolumeProgress()
        try:
            current = await self._settle(runtime, config, progress, is_wanted=is_wanted)
            self._failures.pop(config.id, None)
        except KeyPendingError as error:
            self._context.log.once(f"volume {config.id}: {error}", level="info")
            current = VolumeState(phase=progress.phase, location=progress.device, error=str(error))
        except (UserError, OSError) as error:
            current = self._fail(config.id, progress, error)
        if progress.changed:
            await self._context.refresh()
        if current.used:
            self._used[config.id] = current
        return current

    async def _keep_options(self, config: _Config, current: VolumeState) -> None:
        """Mount options of a user's volume are as configured, also while it is in use."""
        mounts = [mount for mount in self._context.mounts.list() if mount.target == current.target]
        if current.place is None or not mounts:
            return
        wanted = _make_options(config, current.place)
        if frozenset(wanted) == CHANGEABLE & {*mounts[-1].options}:
            self._failures.pop(config.id, None)
            return
        change = self._context.mounts.change_options
        try:
            await trio.to_thread.run_sync(change, current.target, wanted)
        except OSError as error:
            self._warn(config.id, "its mount options can't be changed", str(error.strerror))
            return
        self._failures.pop(config.id, None)
        self._context.log.info(f"volume {config.id}: other mount options", options=",".join(wanted))

    def _fail(self, volume: str, progress: VolumeProgress, error: Exception) -> VolumeState:
        text = str(error)
        self._warn(volume, "can't be used", text)
        return VolumeState(
            phase=enums.VOLUME_PHASE_FAILED,
            before=progress.phase,
            location=progress.device,
            error=text,
        )

    def _warn(self, volume: str, what: str, reason: str) -> None:
        """Log a failure once, and have it tried again."""
        if self._failures.get(volume) != reason:
            self._context.log.warning(f"volume {volume}: {what}", reason=reason)
        self._failures[volume] = reason

    async def _settle(
        self, runtime: ControllerRuntime, config: _Config, progress: VolumeProgress, *, is_wanted: bool
    ) -> VolumeState:
        if is_user_volume(config.spec) and EPHEMERAL.label not in self._used:
            return VolumeState(phase=enums.VOLUME_PHASE_WAITING)
        target = config.spec.mount.target_path
        if is_mounted(config.spec):
            target = str(PurePosixPath(USER_VOLUMES, target))
        if config.spec.type in _PLAIN:
            if is_mounted(config.spec):
                await trio.to_thread.run_sync(self._context.make_folder, target, config.spec.mount.file_mode)
                return VolumeState(phase=enums.VOLUME_PHASE_READY)
            # Those in another volume have a path relative to it, and are mounted with it.
            target = "" if config.spec.mount.parent_id else target
            return VolumeState(phase=enums.VOLUME_PHASE_READY, target=target, used=bool(target))
        obstacle = config.metadata.annotations.get(OBSTACLE)
        if obstacle and is_wanted:
            raise UserError(obstacle, where=_name(config))
        if config.spec.type == enums.VOLUME_TYPE_EXTERNAL:
            place = make_external_place(config.spec)
            progress.device = place.device
            return await self._use(config, place, target)
        return await self._settle_on_disks(runtime, config, progress, target, is_wanted=is_wanted)

    async def _settle_on_disks(
        self,
        runtime: ControllerRuntime,
        config: _Config,
        progress: VolumeProgress,
        target: str,
        *,
        is_wanted: bool,
    ) -> VolumeState:
        devices = await runtime.get_or_none(*ids.DEVICES_STATUS)
        if devices is None or not devices.spec.ready:
            return VolumeState(phase=enums.VOLUME_PHASE_WAITING)
        if config.metadata.annotations.get(VOLUME_SELECTOR):
            return await self._use_existing(runtime, config, progress, target)
        disks = await self._choose_disks(runtime, config)
        if not disks:
            return VolumeState(phase=enums.VOLUME_PHASE_MISSING)
        if not is_wanted:
            return await self._locate(config.id, make_wanted_volume(config.id, config.spec), disks)
        return await self._provide(runtime, config, disks, progress, target)

    async def _provide(
        self,
        runtime: ControllerRuntime,
        config: _Config,
        disks: Sequence[str],
        progress: VolumeProgress,
        target: str,
    ) -> VolumeState:
        """Unlock or make a volume, and use it. META has the keys of STATE before there is a config."""
        if config.id == STATE.label and not await _is_meta_known(runtime):
            return VolumeState(phase=enums.VOLUME_PHASE_WAITING)
        encryption = await self._encryption.make(runtime, config)
        number = int(config.metadata.annotations.get(NUMBER, 0))
        wanted = make_wanted_volume(config.id, config.spec, encryption, number=number)
        provide = settle_disk if config.spec.type == enums.VOLUME_TYPE_DISK else settle
        try:
            place = await provide(self._context.blocks, wanted, disks, self._context.log, progress)
            if place is None:
                return VolumeState(phase=enums.VOLUME_PHASE_MISSING)
            if wanted.filesystem == FILESYSTEM:
                await self._mount(config, place, target, grow=wanted.grow)
            elif wanted.filesystem == SWAP:
                await self._swap(config, place)
        except (UserError, OSError):
            if encryption is not None:  # what can't be used can be wiped
                await self._lock(config.id, encryption)
            raise
        state = _make_state(place, enums.VOLUME_PHASE_READY, target)
        return replace(
            state,
            used=True,
            filesystem=wanted.filesystem,
            encryption=encryption if place.mapped else None,
        )

    async def _use_existing(
        self, runtime: ControllerRuntime, config: _Config, progress: VolumeProgress, target: str
    ) -> VolumeState:
        """Mount a volume that someone else has made."""
        volumes = await runtime.list(kinds.DISCOVERED_VOLUME)
        places = [state.place for volume, state in self._used.items() if state.place and volume != config.id]
        where = _name(config)
        found = find_existing(
            volumes,
            {disk.id: disk.spec for disk in await runtime.list(kinds.DISK)},
            config.metadata.annotations[VOLUME_SELECTOR],
            f"{where} discovery.volumeSelector.match",
            system=[path for path, _ in find_installed(volume.spec for volume in volumes)],
            taken={path for place in places for path in (place.device, place.source)},
        )
        if found is None:
            return VolumeState(phase=enums.VOLUME_PHASE_MISSING)
        progress.device, progress.phase = found.dev_path, enums.VOLUME_PHASE_LOCATED
        place = await open_existing(self._context.blocks, found, where)
        return await self._use(config, place, target)

    async def _use(self, config: _Config, place: VolumePlace, target: str) -> VolumeState:
        """Mount what is someone else's."""
        await self._mount(config, place, target, is_own=False)
        return replace(_make_state(place, enums.VOLUME_PHASE_READY, target), used=True)

    async def _lock(self, volume: str, encryption: VolumeEncryption) -> None:
        try:
            await encryption.close()
        except UserError as error:
            self._context.log.once(f"volume {volume}: can't be locked", level="warning", reason=str(error))

    async def _swap(self, config: _Config, place: VolumePlace) -> None:
        """Swap is made anew at every start: what it held is of no use, and of use to a thief."""
        await self._context.blocks.make_swap(place.source)
        await self._context.blocks.start_swap(place.source)
        self._context.log.info(f"volume {config.id}: swap", device=place.device)

    async def _locate(self, label: str, wanted: WantedVolume, disks: Sequence[str]) -> VolumeState:
        """Locate without writing; META, which has no filesystem, is ready after this."""
        found = await find(self._context.blocks, wanted, disks)
        if found is None:
            phase = enums.VOLUME_PHASE_WAITING if wanted.may_create else enums.VOLUME_PHASE_MISSING
            return VolumeState(phase=phase)
        disk, partition = found
        device = self._context.blocks.name_partition(disk, partition.number)
        content = await self._context.blocks.probe(device)
        place = VolumePlace(disk=disk, device=device, partition=partition, content=content)
        is_meta = label == META.label
        return _make_state(place, enums.VOLUME_PHASE_READY if is_meta else enums.VOLUME_PHASE_LOCATED)

    async def _choose_disks(self, runtime: ControllerRuntime, config: _Config) -> list[str]:
        """The candidate disks of the volume, the system disk first."""
        # Not from SystemDisk: that may come a moment later, and a system disk must not seem to be missing.
        volumes = await runtime.list(kinds.DISCOVERED_VOLUME)
        installed = find_installed(volume.spec for volume in volumes)
        if not installed:
            return []
        disks = await read_disks(self._context.state)
        device = config.metadata.annotations.get(DEVICE, "")
        if device:
            return choose_device(disks, device, installed[0][0], _name(config))
        selector = config.metadata.annotations.get(SELECTOR, "")
        where = f"{_name(config)} provisioning.diskSelector.match"
        return choose_disks(disks, config.spec, selector, installed[0][0], where)

    async def _mount(
        self, config: _Config, place: VolumePlace, target: str, *, grow: bool = False, is_own: bool = True
    ) -> None:
        spec, options = config.spec.mount, _make_options(config, place)
        quota, guarded = spec.project_quota_support, is_mounted(config.spec)
        point = make_point(place, target, options, spec.file_mode, quota=quota, guarded=guarded)
        context = self._context
        await mount_volume(
            context.blocks, context.mounts, place, point, context.log, grow=grow, is_own=is_own
        )
        context.log.info(f"volume {config.id}: mounted", device=place.device, target=target)

    async def _publish(
        self, runtime: ControllerRuntime, config: _Config, current: VolumeState, requests: _Requests
    ) -> None:
        await runtime.modify(
            kinds.VOLUME_STATUS, config.id, partial(fill_status, current=current, config=config.spec)
        )
        if not current.target:
            return
        for request in requests:
            change = partial(_fill_mount_status, request=request.spec, target=current.target)
            await runtime.modify(kinds.VOLUME_MOUNT_STATUS, request.id, change)
        mount = next(
            (mount for mount in reversed(self._context.mounts.list()) if mount.target == current.target), None
        )
        if mount is not None:
            quota = config.spec.mount.project_quota_support
            change = partial(fill_mount, volume=config.id, mount=mount, quota=quota)
            await runtime.modify(kinds.BLOCK_MOUNT_STATUS, config.id, change)
            await runtime.modify(
                kinds.MOUNT_STATUS,
                config.id,
                partial(fill_runtime_mount, mount=mount, encrypted=current.encryption is not None),
            )

    async def _release(self, configured: Collection[str]) -> None:
        """End users' volumes without a document; one in use stays until it is free."""
        for volume in self._failures.keys() - configured - self._used.keys():
            del self._failures[volume]
        for volume, current in list(self._used.items()):
            if volume in configured or not find_place(volume):
                continue
            try:
                if current.target:
                    async with self._context.scrubber.hold(current.target):
                        await trio.to_thread.run_sync(self._context.mounts.unmount, current.target)
                    self._used[volume] = replace(current, target="")
                await self._end(current)
            except UserError as error:  # a container may have it mounted for itself
                self._warn(volume, "can't be locked", str(error))
                continue
            except OSError as error:
                reason = error.strerror
                if current.target:
                    held = await trio.to_thread.run_sync(find_holders, KernelFiles(), current.target)
                    reason = f"{reason}, held by {held}"
                self._warn(volume, "can't be unmounted", str(reason))
                continue
            self._context.log.info(f"volume {volume}: not used any more", device=current.location)
            del self._used[volume]
            self._failures.pop(volume, None)

    async def _end(self, current: VolumeState) -> None:
        """End swapping, and lock what is encrypted. OSError while memory is full, UserError while used."""
        if current.filesystem == SWAP and current.place is not None:
            await self._context.blocks.end_swap(current.place.source)
        if current.encryption is not None:
            await current.encryption.close()

    async def _finish(self) -> None:
        """Unmount the mounts of this controller, the last first; a directory is its owner's."""
        for volume, current in reversed(self._used.items()):
            if current.place is None:
                continue
            if current.target:
                async with self._context.scrubber.hold(current.target):
                    done = await unmount_volume(self._context.mounts, current.target, self._context.log)
                if not done:
                    continue
            try:
                await self._end(current)
            except (UserError, OSError) as error:
                self._context.log.warning(f"volume {volume}: stays in use", reason=str(error))
        self._used.clear()


async def _is_meta_known(runtime: ControllerRuntime) -> bool:
    load = await runtime.get_or_none(*ids.META_LOAD)
    return load is not None and load.spec.done


def _order(config: _Config) -> tuple[int, bool]:
    """By waves; STATE, with the machine's config, is made before the cache of images."""
    return config.spec.provisioning.wave, config.id == IMAGE_CACHE


def _name(config: _Config) -> str:
    """The document of a volume."""
    return find_place(config.id) or f"VolumeConfig {config.id}"


def _make_options(config: _Config, place: VolumePlace) -> tuple[str, ...]:
    spec = config.spec.mount
    return make_options(
        secure=spec.secure,
        no_exec=spec.no_exec,
        no_access_time=has_parameter(spec, NO_ACCESS_TIMES),
        read_only=has_parameter(spec, READ_ONLY) or is_read_only(place.content.name),
    )


def _make_state(place: VolumePlace, phase: enums.BlockVolumePhase, target: str = "") -> VolumeState:
    return VolumeState(phase=phase, disk=place.disk, location=place.device, place=place, target=target)


def _fill_mount_status(
    spec: block_pb2.VolumeMountStatusSpec, request: block_pb2.VolumeMountRequestSpec, target: str
) -> None:
    spec.volume_id = request.volume_id
    spec.requester = request.requester
    spec.target = target
    spec.read_only = request.read_only
    spec.disable_access_time = request.disable_access_time
    spec.secure = request.secure
    spec.no_exec = request.no_exec
