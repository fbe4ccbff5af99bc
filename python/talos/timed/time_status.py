"""Whether the clock is right: TimeStatus, which services wait for."""

from talos.api.definitions.time_pb2 import StatusSpec
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Output, Reconciler


class TimeStatusController(Reconciler):
    """Writes the one TimeStatus.

    The clock is not disciplined yet: a container has that of the machine below it, whose
    task it is. The status shows it.
    """

    name = "time.SyncController"
    outputs = (Output(kinds.TIME_STATUS),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """It never changes."""
        status = StatusSpec(synced=True, epoch=0, sync_disabled=True)
        await runtime.put(*ids.TIME_STATUS, status)
