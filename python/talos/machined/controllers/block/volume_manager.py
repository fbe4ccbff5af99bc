"""VolumeManagerController: from the specs of volumes to their mounts."""

import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

import trio

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.dedicated import is_dedicated
from talos.disks.volumes.encryption_keys import KeyPendingError
from talos.disks.volumes.mounting import CHANGEABLE, GROWTH, unmount_volume
from talos.disks.volumes.status import VolumeState, fill_mount, fill_runtime_mount, fill_status
from talos.disks.volumes.system import find_order
from talos.disks.volumes.user import find_place, is_mounted, is_user_volume
from talos.disks.volumes.volume import SWAP, VolumeProgress
from talos.machined.controllers.block.encryption import EncryptionKeeper
from talos.machined.controllers.block.key_service import KeyService
from talos.machined.controllers.block.open_key import VolumeOpenKey
from talos.machined.controllers.block.volume_settler import (
    ConfigResource,
    VolumeContext,
    VolumeSettler,
    make_volume_options,
)
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, InputStrength, Output
from talos.resource.resource import Phase, Resource
from talos.system.block.layout import EPHEMERAL
from talos.system.errors import UserError
from talos.system.files import KernelFiles
from talos.system.proc.processes import find_holders
from talos.system.sizes import format_size
from talos.system.wakeup import Wakeup

RETRY = 15.0
"""Seconds after which a volume that failed is tried again, if nothing changes before."""

type _Requests = Sequence[Resource[block_pb2.VolumeMountRequestSpec]]


class VolumeManagerController(Controller):
    """Locates, makes, formats, grows and mounts volumes; unmounts them at the machine's end.

    Disks are written to only for a volume whose mount was requested, and for raw ones and swap. What is
    used stays as it is until the end, but for a user's volume, which ends with its document.
    """

    name = "block.VolumeManagerController"
    inputs = (
        Input(kinds.VOLUME_CONFIG),
        Input(kinds.VOLUME_MOUNT_REQUEST),
        Input(*ids.VOLUME_LIFECYCLE, strength=InputStrength.STRONG),
        Input(*ids.DEVICES_STATUS),
        Input(kinds.DISK),
        Input(kinds.DISCOVERED_VOLUME),
        Input(kinds.MD_ARRAY_STATUS),
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
        service = KeyService(context.keys, context.tpm, self._answers.set)
        self._service = service
        self._encryption = EncryptionKeeper(context.devices, context.meta, service, context.log)
        self._settler = VolumeSettler(context, self._encryption, self._used)

    async def run(self, runtime: ControllerRuntime) -> None:
        """Reconcile until the volume lifecycle is torn down. Keys are requested beside it."""
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
        was_mounted = EPHEMERAL.label in self._used
        async with runtime.track_outputs():
            for config in sorted(configs, key=lambda config: find_order(config.id, config.spec)):
                await self._keep_one(runtime, config, requests)
            if EPHEMERAL.label in self._used and not was_mounted:  # so there are their mount points
                for config in filter(lambda config: is_dedicated(config.spec), configs):
                    await self._keep_one(runtime, config, requests)

    async def _keep_one(
        self, runtime: ControllerRuntime, config: ConfigResource, requests: _Requests
    ) -> None:
        wanted = [request for request in requests if request.spec.volume_id == config.id]
        is_device = is_user_volume(config.spec) and not is_mounted(config.spec)
        current = await self._keep(runtime, config, is_wanted=bool(wanted) or is_device)
        await self._publish(runtime, config, current, wanted)

    async def _keep(
        self, runtime: ControllerRuntime, config: ConfigResource, *, is_wanted: bool
    ) -> VolumeState:
        current = self._used.get(config.id)
        # One that could be unmounted, but not locked, begins anew when its document comes back.
        if current is not None and (current.target or not is_mounted(config.spec)):
            await self._encryption.keep(runtime, config, current)
            if is_mounted(config.spec):
                await self._keep_options(config, current)
                current = await self._keep_size(runtime, config, current)
            return current
        progress = VolumeProgress()
        try:
            current = await self._settler.settle(runtime, config, progress, is_wanted=is_wanted)
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
            if current.encryption is not None:
                self._context.open_keys[config.id] = VolumeOpenKey(
                    current.encryption, current.location, self._context.tpm
                )
        return current

    async def _keep_options(self, config: ConfigResource, current: VolumeState) -> None:
        """Mount options of a user's volume are as configured, also while it is in use."""
        mounts = [mount for mount in self._context.mounts.list() if mount.target == current.target]
        if current.place is None or not mounts:
            return
        wanted = make_volume_options(config, current.place)
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

    async def _keep_size(
        self, runtime: ControllerRuntime, config: ConfigResource, current: VolumeState
    ) -> VolumeState:
        """The filesystem of a whole disk grows with it: with a logical volume, or the disk of a guest."""
        place = current.place
        if config.spec.type != enums.VOLUME_TYPE_DISK or place is None or place.mapped:
            return current
        disk = await runtime.get_or_none(kinds.DISK, place.disk.removeprefix("/dev/"))
        if disk is None or disk.spec.size - place.partition.size < GROWTH:
            return current
        try:
            await self._context.blocks.grow_filesystem(place.source, place.content.name, current.target)
        except UserError as error:
            self._warn(config.id, "can't grow", str(error))
            return current
        size = disk.spec.size
        self._context.log.info(f"volume {config.id}: grown", size=format_size(size))
        current = replace(current, place=replace(place, partition=replace(place.partition, size=size)))
        self._used[config.id] = current
        return current

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

    async def _publish(
        self, runtime: ControllerRuntime, config: ConfigResource, current: VolumeState, requests: _Requests
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
            self._context.open_keys.pop(volume, None)
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
