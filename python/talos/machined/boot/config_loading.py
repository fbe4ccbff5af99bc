"""The task ``loadConfig``: a complete config, from disk or platform, else from a user."""

from dataclasses import dataclass, field
from pathlib import Path

import trio
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from talos.api.definitions import enums_pb2 as enums
from talos.api.machine import machine_pb2 as pb
from talos.config.check.validate import Mode
from talos.disks.volumes.requests import is_mounted, name_request
from talos.machined.boot.cloud_network import make_source
from talos.machined.controllers.config.acquire import Sources, acquire_config, acquire_kept
from talos.machined.node.events import EventLog
from talos.machined.node.stage import MachineStage
from talos.machined.platform.arguments import find_environment
from talos.machined.platform.config_sources.inline import EARLY, INLINE, decode_inline
from talos.machined.platform.config_sources.platform import PlatformSource
from talos.machined.platform.config_sources.web import WebSource
from talos.machined.platform.platform import PlatformPort
from talos.resource import ids, kinds
from talos.resource.changes import destroy_if_present, modify, put, teardown_and_destroy, wait_for
from talos.resource.state import State
from talos.system.block.layout import STATE
from talos.system.files import Files
from talos.system.logging import Log
from talos.system.mounts import Mounts

OWNER = "runtime.ConfigLoader"
ACQUIRE_OWNER = "config.AcquireController"
"""Owner of the status that the boot waits for, as upstream names it."""
SOURCE_TIMEOUT = 60.0
"""Seconds for remote sources, which may need the network first, before maintenance mode starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigLoader:
    """Loads the config from all sources."""

    state: State
    state_dir: Path
    platform: PlatformPort
    files: Files
    mounts: Mounts
    stage: MachineStage
    events: EventLog
    log: Log
    unblocked: trio.Event = field(default_factory=trio.Event)
    """Set when a source failed for now, or all sources are exhausted."""

    async def load(self) -> None:
        """Publish a complete config; without one, wait in maintenance mode until a user brings it.

        A source that fails is retried meanwhile. The first complete config is used.
        """
        await put(self.state, *ids.ACQUIRE_CONFIG_SPEC, Empty())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._search)
            nursery.start_soon(self._follow_state)
            with trio.move_on_after(SOURCE_TIMEOUT):
                await self.unblocked.wait()
            await self._wait(is_there=await self._has_config())
            nursery.cancel_scope.cancel()
        await destroy_if_present(self.state, *ids.MACHINE_CONFIG_MAINTENANCE)
        await put(self.state, *ids.ACQUIRE_CONFIG_STATUS, Empty(), owner=ACQUIRE_OWNER)

    async def _wait(self, *, is_there: bool) -> None:
        if is_there:
            self.log.info("the machine config is complete")
            return
        self.log.info("there is no complete machine config, entering maintenance mode")
        before = self.stage.value
        self.stage.set(enums.MACHINE_STAGE_MAINTENANCE)
        await modify(self.state, *ids.MAINTENANCE_SERVICE_REQUEST, lambda _: None, owner=OWNER)
        await wait_for(self.state, *ids.MACHINE_CONFIG, lambda _: True)
        await teardown_and_destroy(self.state, *ids.MAINTENANCE_SERVICE_REQUEST, owner=OWNER)
        self.log.info("the machine has its config, leaving maintenance mode")
        self.stage.set(before)

    async def _has_config(self) -> bool:
        return any(
            one.id == ids.id_of(ids.MACHINE_CONFIG) for one in await self.state.list(kinds.MACHINE_CONFIG)
        )

    async def _follow_state(self) -> None:
        """Load the config in STATE when that is mounted later: its key may come from the network."""
        if await is_mounted(self.state, STATE.label):
            return
        await wait_for(self.state, kinds.VOLUME_MOUNT_STATUS, name_request(STATE.label), lambda _: True)
        if await acquire_kept(self.state, self._make_sources(), self._publish):
            self.log.info("the machine config is that of STATE, which can be used now")

    async def _search(self) -> None:
        await acquire_config(self.state, self._make_sources(), self._publish)
        self.unblocked.set()

    def _make_sources(self) -> Sources:
        arguments = self.platform.arguments

        async def load_early() -> bytes:
            return await trio.to_thread.run_sync(decode_inline, arguments, EARLY)

        async def load_inline() -> bytes:
            return await trio.to_thread.run_sync(decode_inline, arguments, INLINE)

        return Sources(
            state_dir=self.state_dir,
            load_early=load_early,
            load_platform=PlatformSource(
                platform=self.platform,
                web=WebSource(
                    state=self.state,
                    files=self.files,
                    report=self._report,
                    inform=self.log.info,
                    environment=find_environment(arguments),
                ),
                cloud=make_source(
                    state=self.state,
                    files=self.files,
                    mounts=self.mounts,
                    arguments=arguments,
                    report=self._report,
                ),
            ).load,
            load_inline=load_inline,
            remove_platform_config=self.platform.remove_config,
            mode=Mode(self.platform.mode),
        )

    def _report(self, error: str) -> None:
        """Publish a source's failure that is retried."""
        self._publish(pb.ConfigLoadErrorEvent(error=error))
        self.unblocked.set()

    def _publish(self, event: Message) -> None:
        """Publish an event and log its errors, which puts them on the console."""
        error = getattr(event, "error", "")
        for line in error.splitlines():
            self.log.error(f"machine config: {line}")
        self.events.publish(event)
