"""What a discovery server has reported of a cluster, decrypted and held within bounds.

The server is not trusted: it can withhold, repeat and mix up what nodes have sent, but neither read nor forge
it. Data that are not of the node under whose id they come are refused, so that one node can't be shown as
another.
"""

from collections.abc import Iterable, Mapping

from talos.api.definitions.cluster_pb2 import AffiliateSpec
from talos.api.discovery.affiliate_pb2 import Endpoint
from talos.api.discovery.cluster_pb2 import Affiliate, WatchResponse
from talos.clusterd.discovery.cipher import DamagedError, PayloadCipher
from talos.clusterd.discovery.payload import MAX_ADDRESSES, is_node_id, parse_payload
from talos.system.logging import Log

MAX_AFFILIATES = 1024
"""Of a cluster, as the server's own bound."""

MAX_DATA = 4096
"""Bytes of the data of one affiliate; the server's bound is half of it."""


class KnownAffiliates:
    """The other affiliates of a cluster. ``node_id`` is this node's own."""

    def __init__(self, cipher: PayloadCipher, node_id: str, log: Log) -> None:
        self._cipher = cipher
        self._node_id = node_id
        self._log = log
        self._found: dict[str, AffiliateSpec] = {}
        self._raw: dict[str, Affiliate] = {}
        self._stale: set[str] = set()
        self._refused: set[str] = set()
        self.own_hostname = ""

    @property
    def affiliates(self) -> Mapping[str, AffiliateSpec]:
        """By id."""
        return self._found

    def restore(self, affiliates: Mapping[str, AffiliateSpec]) -> None:
        """Begin with what was known before; the first snapshot is then as one after a lost connection."""
        self._found = dict(affiliates)

    def take_snapshot(self, response: WatchResponse) -> bool:
        """The first message of a watch; whether anything has changed.

        What it lacks may only not have been published again to a server that was restarted: it stays
        until :meth:`drop_stale`.
        """
        self._stale = set(self._found)
        return self.take_changes(response)

    def take_changes(self, response: WatchResponse) -> bool:
        """A later message; whether anything has changed."""
        has_changed = False
        for affiliate in response.affiliates:
            if affiliate.id == self._node_id:
                self._check_own(affiliate)
            elif response.deleted:
                has_changed |= self._remove(affiliate.id)
            else:
                has_changed |= self._take(affiliate)
        return has_changed

    def drop_stale(self) -> bool:
        """Forget what the last snapshot lacked and no event has brought since; whether there was any."""
        dropped = [one for one in self._stale if self._remove(one)]
        self._stale.clear()
        return bool(dropped)

    def _remove(self, id: str) -> bool:
        self._raw.pop(id, None)
        return self._found.pop(id, None) is not None

    def _take(self, affiliate: Affiliate) -> bool:
        if affiliate == self._raw.get(affiliate.id):
            self._stale.discard(affiliate.id)
            return False
        spec = self._read(affiliate)
        if spec is None:
            return False
        self._stale.discard(affiliate.id)
        self._raw[affiliate.id] = affiliate
        if spec == self._found.get(affiliate.id):
            return False
        self._found[affiliate.id] = spec
        return True

    def _read(self, affiliate: Affiliate) -> AffiliateSpec | None:
        """Decrypt an affiliate, None when it has no data or can't be used."""
        if not affiliate.data:
            return None  # others have reported endpoints, itself it has published nothing yet
        if affiliate.id not in self._found and len(self._found) >= MAX_AFFILIATES:
            self._refuse(affiliate.id, f"there are {MAX_AFFILIATES} others already", "full")
            return None
        if not is_node_id(affiliate.id) or len(affiliate.data) > MAX_DATA:
            self._refuse(affiliate.id[:64], "its id or its data are too long", "long")
            return None
        try:
            payload = self._cipher.open(affiliate.data)
        except DamagedError as error:
            self._refuse(affiliate.id, str(error), "damaged")
            return None
        if payload.node_id != affiliate.id:
            self._refuse(affiliate.id, "its data are another node's", "mixed up")
            return None
        return parse_payload(payload, self._read_endpoints(affiliate))

    def _read_endpoints(self, affiliate: Affiliate) -> Iterable[Endpoint]:
        for endpoint in affiliate.endpoints[:MAX_ADDRESSES]:
            try:
                yield self._cipher.open_endpoint(endpoint)
            except DamagedError as error:
                self._refuse(affiliate.id, str(error), "endpoint")

    def _check_own(self, affiliate: Affiliate) -> None:
        """Notice a second node with this node's identity, such as a copied disk."""
        try:
            payload = self._cipher.open(affiliate.data)
        except DamagedError:
            return
        if self.own_hostname and payload.hostname != self.own_hostname and payload.node_id == self._node_id:
            self._log.once(
                f"{payload.hostname!r} publishes itself with this node's identity {self._node_id}: "
                "reset one of the two",
                key="identity",
                level="error",
            )

    def _refuse(self, id: str, reason: str, key: str) -> None:
        """Log a kind of mistake once, however many affiliates have it."""
        if key not in self._refused:
            self._refused.add(key)
            self._log.warning("discovered affiliates are left out, such as this one", id=id, reason=reason)
