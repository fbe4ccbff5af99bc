"""The sequence ``install``: a configured machine without a system on its disk gets one and boots it."""

from functools import partial

import trio

from talos.api.definitions import block_pb2, cri_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.config.documents.block.volume import VolumeConfig
from talos.config.effective.machine import is_image_cache_enabled
from talos.config.model import Config
from talos.config.read.loader import load
from talos.disks.install.array import wait_for_array
from talos.disks.install.install import run_install
from talos.disks.install.job import Job, System
from talos.disks.install.plan import InstallPlan, plan_install
from talos.disks.install.request import read_request
from talos.disks.install.running import open_running
from talos.disks.installation import is_installed
from talos.disks.refresh import refresh_discovery
from talos.images.cache.places import ISO_CACHE
from talos.images.cache.places import VOLUME as IMAGE_CACHE
from talos.machined.boot.machine import STATE_DIR, Machine
from talos.machined.boot.phases.known_disks import wait_for_installation
from talos.machined.boot.power import finish
from talos.machined.boot.sequence import Phase, Task, TaskFailedError
from talos.machined.controllers.cri.image_cache import DIAGNOSTIC as COPY_DIAGNOSTIC
from talos.machined.node.config_store import CONFIG_FILE, get_config
from talos.machined.node.unattended_install import show_phase
from talos.machined.platform.boot_files import load_boot_file
from talos.resource import ids, kinds
from talos.resource.changes import wait_for
from talos.resource.resource import Resource
from talos.resource.state import State
from talos.system.block.sysfs import Sysfs
from talos.system.block.target import BlockTarget
from talos.system.errors import UserError
from talos.system.power import PowerAction
from talos.upgrade.slots.systemd_boot.entry import NETWORK_URL

STATE_VOLUME = "STATE"
VOLUME_TIMEOUT = 180.0
"""Seconds in which STATE has to be mounted with the config on it."""
COPY_TIMEOUT = 1200.0
"""Seconds in which the cache of images has to be copied: a gigabyte from a slow stick."""
POLL_INTERVAL = 0.2  # seconds


async def make_install(machine: Machine, sysfs: Sysfs) -> tuple[Phase, ...]:
    """The phases, none where nothing is to be installed; without all disks nothing looks installed."""
    if await is_installed(machine.state) or not await _wants_install(machine):
        return ()
    await wait_for_installation(machine.state, machine.log, sysfs, held_up="nothing is installed")
    if await is_installed(machine.state):
        return ()
    work = Installation(machine)
    return (
        Phase("install", (Task("install", work.install),)),
        Phase("saveConfig", (Task("saveConfig", work.wait_for_config),)),
        Phase("copyImageCache", (Task("copyImageCache", work.wait_for_image_cache),)),
        *machine.power.stop_phases.make(),
        Phase("reboot", (Task("reboot", work.reboot),)),
    )


async def run_install_sequence(machine: Machine) -> None:
    """Install if the config requests it; then the machine reboots and this does not return.

    When it fails, nothing marks the disk as installed, and the machine waits for a changed config while
    it serves the API.
    """
    if await is_installed(machine.state):
        await show_phase(machine.state, enums.UNATTENDED_INSTALL_PHASE_INSTALLED)
    while phases := await make_install(machine, Sysfs()):
        before = machine.stage.value
        seen = await get_config(machine.state, ids.MACHINE_CONFIG)
        machine.stage.set(enums.MACHINE_STAGE_INSTALLING)
        await show_phase(machine.state, enums.UNATTENDED_INSTALL_PHASE_INSTALLING)
        try:
            await machine.sequencer.run("install", phases)
        except TaskFailedError as error:
            await _report(machine, error)
        else:
            return
        await wait_for(
            machine.state,
            *ids.MACHINE_CONFIG,
            lambda resource, seen=seen: resource.spec.yaml_marshalled != seen,
        )
        machine.stage.set(before)


async def _report(machine: Machine, error: TaskFailedError) -> None:
    cause = error.__cause__
    reason = str(cause) if isinstance(cause, UserError | OSError) else "a defect of the installer"
    await show_phase(machine.state, enums.UNATTENDED_INSTALL_PHASE_FAILED, reason)
    if isinstance(cause, UserError | OSError):
        machine.log.error("the system is not installed", reason=reason)
    else:
        machine.log.exception("the system is not installed, by a defect of the installer")
    machine.log.error("apply a config that selects a disk, or restart the machine, to try again")


async def _wants_install(machine: Machine) -> bool:
    try:
        return read_request(await _get_config(machine)) is not None
    except UserError:
        return True  # it requests one, which reports the mistake


async def _get_config(machine: Machine) -> Config:
    return await trio.to_thread.run_sync(load, await get_config(machine.state, ids.MACHINE_CONFIG) or b"")


class Installation:
    """The tasks of the sequence."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._plan: InstallPlan | None = None

    async def install(self) -> None:
        """Choose the disk and write to it."""
        machine = self._machine
        await wait_for_array(machine.state, await _get_config(machine))
        url = machine.platform.arguments.first(NETWORK_URL)
        load = partial(load_boot_file, machine.state, machine.log.warning)
        opened = open_running(machine.state, machine.ports.mounts, machine.upgrades.slots, url, load)
        async with opened as system:
            await self._install(system)
        await refresh_discovery(machine.state)

    async def _install(self, system: System) -> None:
        machine = self._machine
        plan = await plan_install(machine.state, await _get_config(machine), areas=system.areas)
        if plan is None:
            raise UserError("the config requests no installation any more")
        self._plan = plan
        for line in plan.text().splitlines():
            machine.log.info(line)
        target = BlockTarget(
            plan.disk.path,
            plan.disk.spec.sector_size or 512,
            machine.processes.capture,
            machine.ports.mounts,
        )
        job = Job(plan=plan, system=system, target=target, log=partial(_log, machine))
        async with machine.upgrades.lock():
            await run_install(job)

    async def wait_for_config(self) -> None:
        """Wait until the config is on the disk, the only source after the reboot."""
        machine = self._machine
        with trio.move_on_after(VOLUME_TIMEOUT):
            await wait_for(machine.state, kinds.VOLUME_STATUS, STATE_VOLUME, _is_ready)
            while not _is_saved(machine):  # noqa: ASYNC110 - there is no notification of a new file
                await trio.sleep(POLL_INTERVAL)
            return
        raise UserError(
            f"the config is not on the disk after {VOLUME_TIMEOUT:.0f} s",
            where=STATE_VOLUME,
            hint="the system is installed; reboot and apply the config again",
        )

    async def wait_for_image_cache(self) -> None:
        """Wait until the medium's cache of images is on the disk, where the config has a volume for it."""
        machine = self._machine
        config = await _get_config(machine)
        volumes = {document.name for document in config.find_all(VolumeConfig)}
        if not is_image_cache_enabled(config) or IMAGE_CACHE not in volumes:
            return
        failure = ""
        with trio.move_on_after(COPY_TIMEOUT):
            volume = await wait_for(machine.state, kinds.VOLUME_STATUS, IMAGE_CACHE, _is_settled)
            failure = volume.spec.error_message or await _wait_for_copy(machine.state)
            if not failure:
                return
        raise UserError(
            f"the medium's images are not on {IMAGE_CACHE}: "
            f"{failure or f'it took over {COPY_TIMEOUT:.0f} s'}",
            hint="the system is installed; give the volume more room, or leave the cache out of the config",
        )

    async def reboot(self) -> None:
        """Reboot into the installed system."""
        machine = self._machine
        machine.stage.set(enums.MACHINE_STAGE_REBOOTING)
        await show_phase(machine.state, enums.UNATTENDED_INSTALL_PHASE_WAITING_FOR_REBOOT)
        await finish(PowerAction.REBOOT, machine.ports.power, machine.ports.mounts, machine.log)
        await trio.sleep_forever()


def _log(machine: Machine, line: str) -> None:
    machine.log.info(f"install: {line}")


def _is_ready(resource: Resource[block_pb2.VolumeStatusSpec]) -> bool:
    return resource.spec.phase == enums.VOLUME_PHASE_READY


def _is_settled(resource: Resource[block_pb2.VolumeStatusSpec]) -> bool:
    return resource.spec.phase in {enums.VOLUME_PHASE_READY, enums.VOLUME_PHASE_FAILED}


async def _wait_for_copy(state: State) -> str:
    """Wait until the cache is copied, or has failed to be: why."""
    failure = ""

    async def watch_failure() -> None:
        nonlocal failure
        failed = await wait_for(state, kinds.DIAGNOSTIC, COPY_DIAGNOSTIC, lambda _: True)
        failure = "; ".join(failed.spec.details)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_failure)
        await wait_for(state, *ids.IMAGE_CACHE_CONFIG, _is_copied)
        nursery.cancel_scope.cancel()
    return failure


def _is_copied(cache: Resource[cri_pb2.ImageCacheConfigSpec]) -> bool:
    # It was skipped as long as there was no volume, and still is at first.
    has_medium = str(ISO_CACHE) in cache.spec.roots
    return not has_medium or cache.spec.copy_status == enums.IMAGE_CACHE_COPY_STATUS_READY


def _is_saved(machine: Machine) -> bool:
    mounted = any(mount.target == str(STATE_DIR) for mount in machine.ports.mounts.list())
    return mounted and (STATE_DIR / CONFIG_FILE).exists()
