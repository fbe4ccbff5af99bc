"""A bootstrap of etcd that the API accepts, and where clusterd answers for this node's member."""

from dataclasses import dataclass

from talos.api.internal.membership_pb2 import PlanResponse
from talos.system.wakeup import Wakeup

MEMBERSHIP = "/talos.internal.Membership/"
"""What clusterd serves to PID 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBootstrap:
    """A new cluster shall begin here as ``plan`` has it, with the uploaded snapshot if it restores one."""

    plan: PlanResponse


class EtcdControl:
    """Hands a bootstrap from the API to the service, which waits for it while it also tries to join."""

    def __init__(self) -> None:
        self._planned: PlannedBootstrap | None = None
        self._requested = Wakeup()

    def begin(self, planned: PlannedBootstrap) -> None:
        """Have the service bootstrap instead of waiting for a cluster to join."""
        self._planned = planned
        self._requested.set()

    async def wait(self) -> PlannedBootstrap:
        """Wait for an order and take it: what fails is not tried again by itself."""
        while self._planned is None:
            await self._requested.wait()
        planned, self._planned = self._planned, None
        return planned
