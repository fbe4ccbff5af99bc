"""Construct the upgrades of a node: its slots, and what is healthy before and after one."""

from collections.abc import Sequence
from functools import partial

from talos.machined.boot.machine import SystemPorts
from talos.machined.logs.crash import CrashLog
from talos.machined.logs.store import DIRECTORY
from talos.machined.node.events import EventLog
from talos.machined.node.meta_store import MetaStore
from talos.machined.node.ports.services import Services, ServiceState
from talos.machined.platform.platform import PlatformPort
from talos.machined.services.runner_context import RunnerContext
from talos.resource.state import State
from talos.upgrade.session import NETWORK, Upgrades, is_network_ready
from talos.upgrade.slots.choose import choose_slots
from talos.upgrade.slots.container import FolderSlots
from talos.upgrade.slots.open_keys import OpenKeys
from talos.upgrade.slots.systemd_boot.starts import StartCount
from talos.upgrade.state import find_slot


def make_upgrades(
    runner: RunnerContext,
    ports: SystemPorts,
    platform: PlatformPort,
    services: Services,
    *,
    events: EventLog,
    meta: MetaStore,
    crash: CrashLog,
    open_keys: OpenKeys,
) -> Upgrades:
    """The upgrades of this machine; ``runner`` has what services share."""
    state, log = runner.service.state, runner.log
    slots, running = (
        (FolderSlots(platform.slots), find_slot(platform.cmdline))
        if platform.slots
        else choose_slots(
            state, runner.service.processes.capture, ports.mounts, log, platform.cmdline, open_keys
        )
    )
    return Upgrades(
        state=state,
        meta=meta,
        slots=slots,
        running=running,
        publish=events.publish,
        log=log,
        cmdline=platform.cmdline,
        is_repeated=platform.has_kernel and StartCount().is_repeated(),
        list_checks=partial(list_healthy, services, state),
        keep_logs=partial(crash.keep_this, DIRECTORY),
    )


async def list_healthy(services: Services, state: State) -> Sequence[str]:
    """The ids of services that run and are healthy now; with them ``network``, when it is ready."""
    healthy = [
        status.id
        for status in services.list()
        if status.state is ServiceState.RUNNING and status.health.healthy
    ]
    return [*healthy, *([NETWORK] if await is_network_ready(state) else [])]
