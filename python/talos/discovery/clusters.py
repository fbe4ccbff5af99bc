"""What the server keeps: clusters, their affiliates and who watches them, in memory and for a time.

Data and endpoints are encrypted: here they are bytes that are compared and handed on. An affiliate's data
come from itself, endpoints also from others that have seen it; each endpoint has a time to live of its own.
Times are seconds of a clock that never goes back.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from talos.api.discovery.cluster_pb2 import Affiliate
from talos.discovery.limits import Capacity, FullError


@dataclass(slots=True)
class _Affiliate:
    data: bytes = b""
    expires: float = 0.0
    endpoints: dict[bytes, float] = field(default_factory=dict[bytes, float])
    """Each with the time at which it expires, in the order of arrival."""


class Subscription:
    """One watch of a cluster. Changes that wait are ids: a slow reader sees the latest of each.

    ``wait`` returns affiliates that have changed and ids of those that are gone.
    """

    def __init__(self, cluster: "Cluster", limit: int) -> None:
        self._cluster = cluster
        self._limit = limit
        self._changed: dict[str, None] = {}
        self._wake = asyncio.Event()

    def record(self, id: str) -> None:
        """An affiliate has changed or is gone."""
        if len(self._changed) <= self._limit:
            self._changed[id] = None
        self._wake.set()

    async def wait(self) -> tuple[list[Affiliate], list[str]]:
        """The next changes; FullError when the reader is too far behind."""
        await self._wake.wait()
        self._wake.clear()
        if len(self._changed) > self._limit:
            raise FullError("too many changes wait")
        changed, self._changed = self._changed, {}
        affiliates = self._cluster.affiliates
        present = [self._cluster.export(one) for one in changed if one in affiliates]
        return present, [one for one in changed if one not in affiliates]


class Cluster:
    """The affiliates of one cluster."""

    def __init__(self) -> None:
        self.affiliates: dict[str, _Affiliate] = {}
        self.subscriptions: set[Subscription] = set()

    def export(self, id: str) -> Affiliate:
        """One affiliate as clients get it."""
        affiliate = self.affiliates[id]
        return Affiliate(id=id, data=affiliate.data, endpoints=affiliate.endpoints)

    def export_all(self) -> list[Affiliate]:
        """Every affiliate."""
        return [self.export(one) for one in self.affiliates]

    def notify(self, id: str) -> None:
        """Wake everyone who watches."""
        for subscription in self.subscriptions:
            subscription.record(id)


@dataclass(slots=True)
class Counts:
    """How much there is now, and how much was collected since the start."""

    clusters: int = 0
    affiliates: int = 0
    endpoints: int = 0
    subscriptions: int = 0
    gc_runs: int = 0
    gc_clusters: int = 0
    gc_affiliates: int = 0


class Clusters:
    """Every cluster. ``now`` is the clock."""

    def __init__(self, now: Callable[[], float], capacity: Capacity | None = None) -> None:
        self._now = now
        self._capacity = capacity or Capacity()
        self._clusters: dict[str, Cluster] = {}
        self.counts = Counts()

    def update(self, cluster_id: str, id: str, data: bytes, endpoints: Sequence[bytes], ttl: float) -> None:
        """Keep an affiliate's data, if given, and add endpoints; both live for ``ttl`` seconds from now on.

        An affiliate that sends its data has room for its own endpoints: those that expire first give way.
        FullError: what there was stays.
        """
        cluster = self._find_or_make(cluster_id)
        affiliate = cluster.affiliates.get(id)
        if affiliate is None:
            self._check_room(cluster)
        known = affiliate.endpoints if affiliate else {}
        added = [endpoint for endpoint in dict.fromkeys(endpoints) if endpoint not in known]
        excess = len(known) + len(added) - self._capacity.affiliate_endpoints
        others = sorted((one for one in known if one not in endpoints), key=known.__getitem__) if data else []
        if excess > len(others):
            raise FullError("too many endpoints in the affiliate")
        self._keep(cluster_id, cluster)
        is_changed = affiliate is None or bool(added)
        if affiliate is None:
            affiliate = cluster.affiliates[id] = _Affiliate()
            self.counts.affiliates += 1
        expires = self._now() + ttl
        affiliate.expires = max(affiliate.expires, expires)
        if data and data != affiliate.data:
            affiliate.data, is_changed = data, True
        for endpoint in others[: max(excess, 0)]:
            del affiliate.endpoints[endpoint]
            self.counts.endpoints -= 1
        self.counts.endpoints += len(added)
        for endpoint in endpoints:
            affiliate.endpoints[endpoint] = max(affiliate.endpoints.get(endpoint, 0.0), expires)
        if is_changed:
            cluster.notify(id)

    def delete(self, cluster_id: str, id: str) -> None:
        """Forget an affiliate."""
        cluster = self._clusters.get(cluster_id)
        if cluster is not None and self._remove(cluster, id):
            self._drop_if_empty(cluster_id, cluster)

    def find_affiliates(self, cluster_id: str) -> list[Affiliate]:
        """The affiliates of a cluster, none of one that was never written to."""
        cluster = self._clusters.get(cluster_id)
        return cluster.export_all() if cluster else []

    def subscribe(self, cluster_id: str) -> tuple[list[Affiliate], Subscription]:
        """The affiliates of now, and the changes from now on."""
        cluster = self._clusters.get(cluster_id)
        watched = len(cluster.subscriptions) if cluster else 0
        if watched >= self._capacity.cluster_subscriptions:
            raise FullError("too many subscriptions to the cluster")
        if self.counts.subscriptions >= self._capacity.subscriptions:
            raise FullError("too many subscriptions")
        cluster = self._find_or_make(cluster_id)
        self._keep(cluster_id, cluster)
        subscription = Subscription(cluster, 2 * self._capacity.cluster_affiliates)
        cluster.subscriptions.add(subscription)
        self.counts.subscriptions += 1
        return cluster.export_all(), subscription

    def unsubscribe(self, cluster_id: str, subscription: Subscription) -> None:
        """End a subscription."""
        cluster = self._clusters[cluster_id]
        cluster.subscriptions.remove(subscription)
        self.counts.subscriptions -= 1
        self._drop_if_empty(cluster_id, cluster)

    def collect(self) -> None:
        """Forget what has expired."""
        now = self._now()
        before = self.counts.affiliates, self.counts.clusters
        for cluster_id, cluster in list(self._clusters.items()):
            for one, affiliate in list(cluster.affiliates.items()):
                if affiliate.expires <= now:
                    self._remove(cluster, one)
                    continue
                expired = [endpoint for endpoint, expires in affiliate.endpoints.items() if expires <= now]
                for endpoint in expired:
                    del affiliate.endpoints[endpoint]
                self.counts.endpoints -= len(expired)
                if expired:
                    cluster.notify(one)
            self._drop_if_empty(cluster_id, cluster)
        self.counts.gc_runs += 1
        self.counts.gc_affiliates += before[0] - self.counts.affiliates
        self.counts.gc_clusters += before[1] - self.counts.clusters

    def _find_or_make(self, cluster_id: str) -> Cluster:
        """A cluster, which is not kept yet if it is new; FullError."""
        cluster = self._clusters.get(cluster_id)
        if cluster is None and len(self._clusters) >= self._capacity.clusters:
            raise FullError("too many clusters")
        return cluster or Cluster()

    def _keep(self, cluster_id: str, cluster: Cluster) -> None:
        if cluster_id not in self._clusters:
            self._clusters[cluster_id] = cluster
            self.counts.clusters += 1

    def _check_room(self, cluster: Cluster) -> None:
        if len(cluster.affiliates) >= self._capacity.cluster_affiliates:
            raise FullError("too many affiliates in the cluster")
        if self.counts.affiliates >= self._capacity.affiliates:
            raise FullError("too many affiliates")

    def _remove(self, cluster: Cluster, id: str) -> bool:
        affiliate = cluster.affiliates.pop(id, None)
        if affiliate is None:
            return False
        self.counts.affiliates -= 1
        self.counts.endpoints -= len(affiliate.endpoints)
        cluster.notify(id)
        return True

    def _drop_if_empty(self, cluster_id: str, cluster: Cluster) -> None:
        if not cluster.affiliates and not cluster.subscriptions:
            del self._clusters[cluster_id]
            self.counts.clusters -= 1
