"""The task ``loadConfig``: a complete config, from disk or platform, else from a user."""

from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import Message

from talos.api.definitions import enums_pb2 as enums
from talos.config.validate import Mode
from talos.daemon.logging import Log
from talos.machined.controllers.config.acquire import Sources, acquire_config
from talos.machined.controllers.config.machine_type import ACTIVE
from talos.machined.controllers.secrets.maintenance import MAINTENANCE
from talos.machined.events import EventLog
from talos.machined.platform import PlatformPort
from talos.machined.stage import MachineStage
from talos.resource import kinds
from talos.resource.changes import modify, teardown_and_destroy, wait_for
from talos.resource.state import State

OWNER = "runtime.ConfigLoader"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigLoader:
    """What the task works with."""

    state: State
    state_dir: Path
    platform: PlatformPort
    stage: MachineStage
    events: EventLog
    log: Log

    async def load(self) -> None:
        """Publish a complete config; without one, wait in maintenance mode until a user brings it."""
        sources = Sources(
            state_dir=self.state_dir,
            load_platform=self.platform.load_config,
            forget_platform=self.platform.forget_config,
            mode=Mode(self.platform.mode),
        )
        if await acquire_config(self.state, sources, self._publish):
            self.log.info("the machine config is complete")
            return
        self.log.info("there is no complete machine config, entering maintenance mode")
        before = self.stage.value
        self.stage.set(enums.MACHINE_STAGE_MAINTENANCE)
        await modify(self.state, kinds.MAINTENANCE_SERVICE_REQUEST, MAINTENANCE, lambda _: None, owner=OWNER)
        await wait_for(self.state, kinds.MACHINE_CONFIG, ACTIVE, lambda _: True)
        await teardown_and_destroy(self.state, kinds.MAINTENANCE_SERVICE_REQUEST, MAINTENANCE, owner=OWNER)
        self.log.info("a machine config was applied, leaving maintenance mode")
        self.stage.set(before)

    def _publish(self, event: Message) -> None:
        """Tell what is wrong with a config on the console, too: it may be all that one sees."""
        error = getattr(event, "error", "")
        if error:
            self.log.error("the machine config can't be used", reason=error)
        self.events.publish(event)
