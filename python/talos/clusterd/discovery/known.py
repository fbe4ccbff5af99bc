"""What a discovery server has reported of a cluster, decrypted and held within bounds.

The server is not trusted: it can withhold, repeat and mix up what nodes have sent, but neither read nor forge
it. Data that are not of the node under whose id they come are refused, so that one node can't be shown as
another. All who have the cluster's id can change and delete there what is of others. What they do so to this
node is to be published again; what they delete of another node counts only when that one has not published
itself again within :data:`DELETED`.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from talos.api.definitions.cluster_pb2 import AffiliateSpec
from talos.api.discovery.affiliate_pb2 import Endpoint
from talos.api.discovery.cluster_pb2 import Affiliate, WatchResponse
from talos.clusterd.discovery.cipher import DamagedError, PayloadCipher
from talos.clusterd.discovery.payload import MAX_ADDRESSES, is_node_id, parse_payload
from talos.system.logging import Log

MAX_AFFILIATES = 1024
"""Of a cluster, as the server's own bound."""

DELETED = 3.0
"""Seconds after which a deletion counts: a node that others have deleted is back within one or two."""

MAX_ENDPOINTS = 4 * MAX_ADDRESSES
"""Encrypted endpoints of one affiliate that are read; the server's bound is a quarter of it."""

MAX_DATA = 4096
"""Bytes of the data of one affiliate; the server's bound is half of it."""


class KnownAffiliates:
    """The other affiliates of a cluster. ``node_id`` is this node's own."""

    def __init__(
        self, cipher: PayloadCipher, node_id: str, log: Log, now: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._cipher = cipher
        self._now = now
        self._node_id = node_id
        self._log = log
        self._found: dict[str, AffiliateSpec] = {}
        self._raw: dict[str, Affiliate] = {}
        self._stale: set[str] = set()
        self._deleted: dict[str, float] = {}
        """By id, since when."""
        self._refused: set[str] = set()
        self.own_hostname = ""
        self.own_data = b""
        """What this node has published, empty while it is to be unknown."""
        self.is_deleted = False
        """Whether this node has been, by others; who reads it resets it."""
        self.is_replaced = False
        """Whether another's data have been sent under this node's id; who reads it resets it."""

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
        self._deleted.clear()
        return self.take_changes(response)

    def take_changes(self, response: WatchResponse) -> bool:
        """A later message; whether anything has changed."""
        has_changed = False
        for affiliate in response.affiliates:
            if affiliate.id == self._node_id:
                self._check_own(affiliate, is_deleted=response.deleted)
            elif not response.deleted:
                has_changed |= self._take(affiliate)
            elif affiliate.id in self._found:
                self._deleted[affiliate.id] = self._now()
        return has_changed

    @property
    def has_deleted(self) -> bool:
        """Whether deletions wait for :meth:`drop_deleted`."""
        return bool(self._deleted)

    def drop_deleted(self) -> bool:
        """Forget what was deleted :data:`DELETED` seconds ago and is not back; whether there was any."""
        due = [one for one, since in self._deleted.items() if self._now() - since >= DELETED]
        dropped = [one for one in due if self._remove(one)]
        return bool(dropped)

    def drop_stale(self) -> bool:
        """Forget what the last snapshot lacked and no event has brought since; whether there was any."""
        dropped = [one for one in self._stale if self._remove(one)]
        self._stale.clear()
        return bool(dropped)

    def _remove(self, id: str) -> bool:
        self._raw.pop(id, None)
        self._deleted.pop(id, None)
        return self._found.pop(id, None) is not None

    def _take(self, affiliate: Affiliate) -> bool:
        if affiliate == self._raw.get(affiliate.id):
            self._stale.discard(affiliate.id)
            self._deleted.pop(affiliate.id, None)
            return False
        spec = self._read(affiliate)
        if spec is None:
            return False
        if self._has_other_key(spec):
            self._refuse(affiliate.id, "it has another key for KubeSpan than before", "key")
            return False
        self._stale.discard(affiliate.id)
        self._deleted.pop(affiliate.id, None)
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
        for endpoint in islice(affiliate.endpoints, MAX_ENDPOINTS):
            try:
                yield self._cipher.open_endpoint(endpoint)
            except DamagedError as error:
                self._refuse(affiliate.id, str(error), "endpoint")

    def _has_other_key(self, spec: AffiliateSpec) -> bool:
        """Whether a node has another key than before: both its id and its key are made once, in STATE."""
        before = self._found.get(spec.node_id, AffiliateSpec()).kube_span.public_key
        return bool(before and spec.kube_span.public_key) and before != spec.kube_span.public_key

    def _check_own(self, affiliate: Affiliate, *, is_deleted: bool) -> None:
        """Notice what others do under this node's id, such as a node of a copied disk."""
        self.is_deleted |= is_deleted and bool(self.own_data)
        self.is_replaced |= bool(affiliate.data) and affiliate.data != self.own_data != b""
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
