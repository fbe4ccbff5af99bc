"""The bootstrap of etcd: what the API accepts and etcd's service carries out."""

from dataclasses import dataclass

from talos.api.internal.membership_pb2 import PlanResponse
from talos.system.wakeup import Wakeup

MEMBERSHIP = "/talos.internal.Membership/"
"""What clusterd serves to PID 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapOrder:
    """A new cluster shall begin here as ``plan`` has it, with the uploaded snapshot if it restores one."""

    plan: PlanResponse


class EtcdControl:
    """Hands a bootstrap from the API to the service, which waits for it while it also tries to join."""

    def __init__(self) -> None:
        self._order: BootstrapOrder | None = None
        self._ordered = Wakeup()

    def begin(self, order: BootstrapOrder) -> None:
        """Have the service bootstrap instead of waiting for a cluster to join."""
        self._order = order
        self._ordered.set()

    async def wait(self) -> BootstrapOrder:
        """Wait for an order and take it: what fails is not tried again by itself."""
        while self._order is None:
            await self._ordered.wait()
        order, self._order = self._order, None
        return order
