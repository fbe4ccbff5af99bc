"""Something bounded that clients share, so that none of them can use it up."""

from collections import Counter
from dataclasses import dataclass, field

from talos.api.rpc import Code, RpcError


@dataclass(slots=True)
class ClientQuota:
    """A bounded amount of something, shared by clients so that none can use it up.

    A client may take as much as is left free by all (the dynamic threshold of shared-memory
    switches): one alone gets half of the total, two get a third each, and some is always left.

    ``spare`` is lent beside the total, first come, first served: streams are faster with it.
    """

    total: int
    what: str
    spare: int = 0
    _held: Counter[str] = field(default_factory=Counter[str])
    _used: int = 0

    def take(self, client: str, amount: int) -> None:
        """Take an amount; RpcError when the client would have more than is left."""
        if self._held[client] + amount > self.total - self._used - amount:
            raise RpcError(Code.RESOURCE_EXHAUSTED, f"too many {self.what} at a time, try again")
        self._held[client] += amount
        self._used += amount

    def lend(self, amount: int) -> bool:
        """Take an amount of what is spare, if so much is left; it comes back by the negative amount."""
        if amount > self.spare:
            return False
        self.spare -= amount
        return True

    def give_back(self, client: str, amount: int) -> None:
        """Return an amount."""
        self._used -= amount
        self._held[client] -= amount
        if not self._held[client]:
            del self._held[client]
