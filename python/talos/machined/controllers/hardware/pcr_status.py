"""PCRStatus of PCR 11: there while the TPM opens keys of volumes that are bound to the image."""

import math
from typing import override

from google.protobuf.empty_pb2 import Empty

from talos.api.definitions import enums_pb2 as enums
from talos.machined.node.tpm_keys import TpmKeys
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.backoff import Backoff
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.tpm.uki import PCR

REQUIRED = ("STATE", "EPHEMERAL")
RETRY_BACKOFF = Backoff(1.0, 60.0)
"""Seconds until a TPM that has failed is tried again."""
_ON_DISKS = frozenset({enums.VOLUME_TYPE_PARTITION, enums.VOLUME_TYPE_DISK})
_SETTLED = frozenset({enums.VOLUME_PHASE_READY, enums.VOLUME_PHASE_MISSING, enums.VOLUME_PHASE_CLOSED})


class PCRStatusController(Reconciler):
    """VolumeConfig and VolumeStatus → PCRStatus.

    Once all volumes are open, PCR 11 gets another value: who becomes root on the node later opens nothing by
    the TPM. A volume that fails keeps it open, as a change of the config may mend that. A TPM that fails is
    tried again; each phase is measured once, as ``KernelTpmKeys`` compares the PCR before it measures.
    """

    name = "hardware.PCRStatusController"
    inputs = (Input(kinds.VOLUME_CONFIG), Input(kinds.VOLUME_STATUS))
    outputs = (Output(kinds.PCR_STATUS),)

    def __init__(self, tpm: TpmKeys, log: Log) -> None:
        self._tpm, self._log = tpm, log
        self._delays = iter(RETRY_BACKOFF)
        self._is_over = False

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Measure what is due."""
        self.interval = math.inf
        if self._is_over:
            return
        try:
            self._is_over = await self._measure(runtime)
        except (UserError, OSError) as error:
            self._log.once(f"PCR {PCR} can't be measured, it is tried again: {error}", key="measure")
            self.interval = next(self._delays)
        else:
            self._delays = iter(RETRY_BACKOFF)

    async def _measure(self, runtime: ControllerRuntime) -> bool:
        """Measure; whether nothing is left to be measured. UserError, OSError."""
        if not await self._tpm.begin():
            return True
        if not await self._are_volumes_open(runtime):
            await runtime.put(kinds.PCR_STATUS, str(PCR), Empty())
            return False
        await self._tpm.lock()
        await runtime.remove(kinds.PCR_STATUS, str(PCR))
        self._log.info("the TPM is locked: it opens no volume by this image until the next boot")
        return True

    async def _are_volumes_open(self, runtime: ControllerRuntime) -> bool:
        statuses = {status.id: status.spec for status in await runtime.list(kinds.VOLUME_STATUS)}
        if any(name not in statuses or statuses[name].phase != enums.VOLUME_PHASE_READY for name in REQUIRED):
            return False
        return all(
            config.id in statuses and statuses[config.id].phase in _SETTLED
            for config in await runtime.list(kinds.VOLUME_CONFIG)
            if config.spec.type in _ON_DISKS
        )
