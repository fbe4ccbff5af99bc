"""In which stage of its run the machine is; controllers wait for changes of it."""

import trio

from talos.api.definitions import enums_pb2 as enums


class MachineStage:
    """One of ``RuntimeMachineStage``, changed by the sequences."""

    def __init__(self) -> None:
        self.value = enums.MACHINE_STAGE_BOOTING
        self.fingerprint = ""
        """That of the API's key in maintenance, else empty."""
        self._changed = trio.Event()

    def set(self, value: enums.RuntimeMachineStage) -> None:
        """Enter a stage."""
        self.value = value
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def wait_for_change(self) -> None:
        """Wait until another stage is entered."""
        await self._changed.wait()
