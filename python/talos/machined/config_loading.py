"""Where the machine config comes from: STATE, else the platform, else a user in maintenance mode."""

from pathlib import Path

import trio

from talos.api.definitions import enums_pb2 as enums
from talos.api.machine import machine_pb2 as pb
from talos.config.loader import load
from talos.daemon.logging import Log
from talos.machined.api.config_store import ACTIVE, CONFIG_FILE, PERSISTENT, publish_config, write_config
from talos.machined.events import EventLog
from talos.machined.platform import PlatformPort
from talos.machined.stage import MachineStage
from talos.resource import kinds
from talos.resource.changes import wait_for
from talos.resource.state import State
from talos.system.errors import UserError


class ConfigLoader:
    """The task ``loadConfig``."""

    def __init__(
        self,
        *,
        state: State,
        state_dir: Path,
        platform: PlatformPort,
        stage: MachineStage,
        events: EventLog,
        log: Log,
    ) -> None:
        self._state = state
        self._state_dir = state_dir
        self._platform = platform
        self._stage = stage
        self._events = events
        self._log = log

    async def load(self) -> None:
        """Publish a complete config; without one, wait in maintenance mode until a user brings it."""
        data = self._read_persistent()
        is_new = not data
        if is_new:
            data = self._platform.load_config()
        if data and await self._is_usable(data):
            if is_new:
                write_config(self._state_dir, data)
                self._platform.forget_config()
            await publish_config(self._state, PERSISTENT, data)
            await publish_config(self._state, ACTIVE, data)
            self._log.info("machine config loaded", source="platform" if is_new else "disk")
            return
        self._log.info("there is no machine config, entering maintenance mode")
        before = self._stage.value
        self._stage.set(enums.MACHINE_STAGE_MAINTENANCE)
        await wait_for(self._state, kinds.MACHINE_CONFIG, ACTIVE, lambda _: True)
        self._log.info("machine config applied, leaving maintenance mode")
        self._stage.set(before)

    def _read_persistent(self) -> bytes:
        try:
            return (self._state_dir / CONFIG_FILE).read_bytes()
        except FileNotFoundError:
            return b""

    async def _is_usable(self, data: bytes) -> bool:
        try:
            # A big config takes a while; the API and the network come up meanwhile.
            config = await trio.to_thread.run_sync(load, data)
        except UserError as error:
            self._log.error("the machine config is invalid", reason=str(error))
            self._events.publish(pb.ConfigValidationErrorEvent(error=str(error)))
            return False
        if not config.is_complete:
            self._log.info("the machine config is incomplete: machine.type is missing")
        return config.is_complete
