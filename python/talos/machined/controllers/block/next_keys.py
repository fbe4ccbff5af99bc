"""Keys of volumes for starts that an upgrade could lead to are removed once it has its verdict."""

from typing import override

from talos.api.definitions import enums_pb2 as enums
from talos.machined.node.ports.upgrades import Trial
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Reconciler
from talos.system.errors import UserError
from talos.system.logging import Log


class NextKeysController(Reconciler):
    """VolumeStatus → the key slots of encrypted volumes, each once in a boot and after each verdict.

    What fails is left for the next start.
    """

    name = "block.NextKeysController"
    inputs = (Input(kinds.VOLUME_STATUS),)
    outputs = ()

    def __init__(self, upgrader: Trial, log: Log) -> None:
        self._upgrader, self._log = upgrader, log
        self._settled: frozenset[str] = frozenset()
        self._is_listening = False

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Settle the keys of volumes that were opened since the last time."""
        if not self._is_listening:
            self._upgrader.listen(runtime.queue_reconcile)
            self._is_listening = True
        opened = frozenset(
            volume.id
            for volume in await runtime.list(kinds.VOLUME_STATUS)
            if volume.spec.phase == enums.VOLUME_PHASE_READY
            and volume.spec.encryption_provider != enums.ENCRYPTION_PROVIDER_NONE
        )
        if opened <= self._settled:
            return
        try:
            if await self._upgrader.settle_keys():
                self._settled = opened
        except (UserError, OSError) as error:
            self._settled = opened
            self._log.error("keys for other starts are left in the volumes", reason=str(error))
