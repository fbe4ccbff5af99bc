"""One volume: located, made, unlocked, grown and mounted."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import trio

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.devices import are_devices_ready, read_disk_specs
from talos.disks.disk import read_disks
from talos.disks.installation import find_installed
from talos.disks.raid.system import is_system_expected
from talos.disks.volumes.backing import DIRECTORY, PARTITION, make_backing_error
from talos.disks.volumes.blocks import Blocks
from talos.disks.volumes.choice import find_devices, name_volume
from talos.disks.volumes.crypt_devices import CryptDevices
from talos.disks.volumes.dedicated import is_dedicated
from talos.disks.volumes.encryption import VolumeEncryption
from talos.disks.volumes.existing import find_existing, is_read_only, open_existing
from talos.disks.volumes.external import make_external_place
from talos.disks.volumes.folders import SystemFolders
from talos.disks.volumes.mounting import make_options, make_point, mount_volume
from talos.disks.volumes.scrubber import Scrubber
from talos.disks.volumes.settle import find, settle
from talos.disks.volumes.specs import (
    NO_ACCESS_TIMES,
    NUMBER,
    OBSTACLE,
    READ_ONLY,
    VOLUME_SELECTOR,
    has_parameter,
)
from talos.disks.volumes.status import VolumeState, make_wanted_volume
from talos.disks.volumes.user import USER_VOLUMES, is_mounted, is_user_volume
from talos.disks.volumes.volume import SWAP, VolumePlace, VolumeProgress, WantedVolume
from talos.disks.volumes.whole_disk import settle_disk
from talos.machined.controllers.block.encryption import EncryptionKeeper
from talos.machined.node.key_requests import KeyRequests
from talos.machined.node.meta_store import MetaStore
from talos.machined.node.tpm_keys import TpmKeys
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime
from talos.resource.resource import Resource
from talos.resource.state import State
from talos.system.block.layout import EPHEMERAL, META, STATE
from talos.system.block.md import MEMBER
from talos.system.block.partitions import is_unfinished
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.mounts import Mounts
from talos.upgrade.slots.open_keys import OpenKeys

_PLAIN = frozenset({enums.VOLUME_TYPE_DIRECTORY, enums.VOLUME_TYPE_SYMLINK})
"""Kinds of volumes that need no disk."""

type ConfigResource = Resource[block_pb2.VolumeConfigSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeContext:
    """The dependencies of the controller.

    ``refresh`` requests a rescan of the disks, ``make_folder`` makes a folder with a mode if there is none,
    ``folders`` are the system's own, ``devices`` the encrypted ones, ``scrubber`` checks mounted ones;
    ``open_keys`` are those of volumes in use.
    """

    state: State
    blocks: Blocks
    mounts: Mounts
    refresh: Callable[[], Awaitable[None]]
    make_folder: Callable[[str, int], None]
    folders: SystemFolders
    devices: CryptDevices
    meta: MetaStore
    keys: KeyRequests
    open_keys: OpenKeys
    tpm: TpmKeys
    scrubber: Scrubber
    log: Log


class VolumeSettler:
    """Brings one volume at a time to where it is used. ``used`` has those that are."""

    def __init__(
        self, context: VolumeContext, encryption: EncryptionKeeper, used: Mapping[str, VolumeState]
    ) -> None:
        self._context = context
        self._encryption = encryption
        self._used = used
        self._unmade: set[str] = set()
        """The volumes with partitions of their own that have none yet: EPHEMERAL is made after them."""

    async def settle(
        self, runtime: ControllerRuntime, config: ConfigResource, progress: VolumeProgress, *, is_wanted: bool
    ) -> VolumeState:
        """Bring a volume as far as its request, its disks and others let it; UserError, OSError."""
        self._unmade.discard(config.id)
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
            raise UserError(obstacle, where=name_volume(config.id))
        if config.spec.type == enums.VOLUME_TYPE_EXTERNAL:
            place = make_external_place(config.spec)
            progress.device = place.device
            return await self._use(config, place, target)
        return await self._settle_on_disks(runtime, config, progress, target, is_wanted=is_wanted)

    async def _settle_on_disks(
        self,
        runtime: ControllerRuntime,
        config: ConfigResource,
        progress: VolumeProgress,
        target: str,
        *,
        is_wanted: bool,
    ) -> VolumeState:
        is_early = is_dedicated(config.spec) and EPHEMERAL.label not in self._used
        if is_early and is_wanted:
            self._unmade.add(config.id)
        if not await are_devices_ready(runtime):
            return VolumeState(phase=enums.VOLUME_PHASE_WAITING)
        if config.metadata.annotations.get(VOLUME_SELECTOR):
            return await self._use_existing(runtime, config, progress, target)
        disks = await self._choose_disks(runtime, config)
        if not disks:
            is_expected = await self._expects_system(runtime)
            return VolumeState(
                phase=enums.VOLUME_PHASE_WAITING if is_expected else enums.VOLUME_PHASE_MISSING
            )
        if is_wanted and not is_dedicated(config.spec):
            return await self._provide(runtime, config, disks, progress, target)
        located = await self._locate(config.id, make_wanted_volume(config.id, config.spec), disks)
        progress.device = located.location
        if located.place is not None:
            self._unmade.discard(config.id)
        if not is_wanted or (is_early and located.place and not is_unfinished(located.place.partition)):
            return located
        current = await self._provide(runtime, config, disks, progress, target)
        self._unmade.discard(config.id)
        return current

    async def _provide(
        self,
        runtime: ControllerRuntime,
        config: ConfigResource,
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
        waits = config.id == EPHEMERAL.label and bool(self._unmade)
        if waits:
            wanted = replace(wanted, may_create=False)
        provide = settle_disk if config.spec.type == enums.VOLUME_TYPE_DISK else settle
        try:
            place = await provide(self._context.blocks, wanted, disks, self._context.log, progress)
            if place is None:
                return self._make_absent(waits=waits)
            if is_dedicated(config.spec) and EPHEMERAL.label not in self._used:
                if encryption is not None:
                    await self._lock(config.id, encryption)
                return _make_state(place, enums.VOLUME_PHASE_PREPARED)
            if wanted.has_filesystem:
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

    def _make_absent(self, *, waits: bool) -> VolumeState:
        """The state of a volume that isn't there, and is not made, or not yet."""
        if not waits:
            return VolumeState(phase=enums.VOLUME_PHASE_MISSING)
        text = f"it is made after {', '.join(sorted(self._unmade))}, which can't be made"
        return VolumeState(phase=enums.VOLUME_PHASE_WAITING, error=text)

    async def _use_existing(
        self, runtime: ControllerRuntime, config: ConfigResource, progress: VolumeProgress, target: str
    ) -> VolumeState:
        """Mount a volume that this node has not made."""
        volumes = await runtime.list(kinds.DISCOVERED_VOLUME)
        places = [state.place for volume, state in self._used.items() if state.place and volume != config.id]
        where = name_volume(config.id)
        found = find_existing(
            volumes,
            await read_disk_specs(runtime),
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

    async def _use(self, config: ConfigResource, place: VolumePlace, target: str) -> VolumeState:
        """Mount what this node has not made."""
        await self._mount(config, place, target, is_own=False)
        return replace(_make_state(place, enums.VOLUME_PHASE_READY, target), used=True)

    async def _lock(self, volume: str, encryption: VolumeEncryption) -> None:
        try:
            await encryption.close()
        except UserError as error:
            self._context.log.once(f"volume {volume}: can't be locked", level="warning", reason=str(error))

    async def _swap(self, config: ConfigResource, place: VolumePlace) -> None:
        """Make swap anew at every start: what it held has no use but for a thief."""
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

    async def _choose_disks(self, runtime: ControllerRuntime, config: ConfigResource) -> list[str]:
        """The candidate disks of the volume, the system disk first."""
        # Not from SystemDisk: that may come a moment later, and a system disk must not seem to be missing.
        volumes = await runtime.list(kinds.DISCOVERED_VOLUME)
        installed = find_installed(volume.spec for volume in volumes)
        if not installed:
            return []
        disks = await read_disks(self._context.state)
        return find_devices(disks, config.id, config.spec, config.metadata.annotations, installed[0][0])

    async def _expects_system(self, runtime: ControllerRuntime) -> bool:
        """Whether the system may be on an array that is not started yet."""
        volumes = await runtime.list(kinds.DISCOVERED_VOLUME)
        if not any(volume.spec.name == MEMBER for volume in volumes):
            return False
        disks = await read_disk_specs(runtime)
        statuses = await runtime.list(kinds.MD_ARRAY_STATUS)
        return await is_system_expected(volumes, disks, statuses, self._context.blocks.read_head)

    async def _mount(
        self,
        config: ConfigResource,
        place: VolumePlace,
        target: str,
        *,
        grow: bool = False,
        is_own: bool = True,
    ) -> None:
        spec, options, context = config.spec.mount, make_volume_options(config, place), self._context
        has_partition = is_dedicated(config.spec)
        quota, guarded = spec.project_quota_support, is_mounted(config.spec) or has_partition
        if has_partition:
            await self._check_folder(config.id, target)
        point = make_point(place, target, options, spec.file_mode, quota=quota, guarded=guarded)
        await mount_volume(
            context.blocks, context.mounts, place, point, context.log, grow=grow, is_own=is_own
        )
        if has_partition:
            await trio.to_thread.run_sync(context.folders.make, config.id)
        context.log.info(f"volume {config.id}: mounted", device=place.device, target=target)

    async def _check_folder(self, volume: str, target: str) -> None:
        """UserError when the volume was a folder until now: what is in it would be hidden."""
        mounted = {mount.target for mount in self._context.mounts.list()}
        if target not in mounted and await trio.to_thread.run_sync(self._context.folders.is_used, target):
            raise make_backing_error(volume, DIRECTORY, PARTITION)


async def _is_meta_known(runtime: ControllerRuntime) -> bool:
    load = await runtime.get_or_none(*ids.META_LOAD)
    return load is not None and load.spec.done


def make_volume_options(config: ConfigResource, place: VolumePlace) -> tuple[str, ...]:
    """The options that a volume is mounted with."""
    spec = config.spec.mount
    return make_options(
        secure=spec.secure,
        no_exec=spec.no_exec,
        no_access_time=has_parameter(spec, NO_ACCESS_TIMES),
        read_only=has_parameter(spec, READ_ONLY) or is_read_only(place.content.name),
    )


def _make_state(place: VolumePlace, phase: enums.BlockVolumePhase, target: str = "") -> VolumeState:
    return VolumeState(phase=phase, disk=place.disk, location=place.device, place=place, target=target)
