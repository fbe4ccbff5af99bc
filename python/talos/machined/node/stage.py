"""The stage of the machine, with notification of changes."""

from talos.api.definitions import enums_pb2 as enums
from talos.system.wakeup import Signal


class MachineStage:
    """One of ``RuntimeMachineStage``, changed by the sequences."""

    def __init__(self) -> None:
        self.value = enums.MACHINE_STAGE_BOOTING
        self.fingerprint = ""
        """That of the API's key in maintenance, else empty."""
        self._changed = Signal()

    def set(self, value: enums.RuntimeMachineStage) -> None:
        """Enter a stage."""
        self.value = value
        self._changed.notify()

    async def wait_for_change(self) -> None:
        """Wait until another stage is entered."""
        await self._changed.wait()
