"""The discovery server's state, on a clock of the test."""

import asyncio

import pytest

from talos.api.discovery.cluster_pb2 import Affiliate
from talos.discovery.clusters import Clusters, Subscription
from talos.discovery.limits import Capacity, FullError

SMALL = Capacity(
    clusters=2,
    affiliates=4,
    subscriptions=3,
    cluster_affiliates=3,
    cluster_subscriptions=2,
    affiliate_endpoints=2,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def clusters(clock: Clock) -> Clusters:
    return Clusters(clock, SMALL)


async def receive(subscription: Subscription) -> tuple[list[Affiliate], list[str]]:
    async with asyncio.timeout(0):  # what is recorded is not waited for
        return await subscription.wait()


def changes(subscription: Subscription) -> tuple[list[Affiliate], list[str]]:
    return asyncio.run(receive(subscription))


def has_changes(subscription: Subscription) -> bool:
    try:
        changes(subscription)
    except TimeoutError:
        return False
    return True


def test_an_affiliate_is_kept_until_it_expires(clusters: Clusters, clock: Clock) -> None:
    clusters.update("c", "a", b"data", [b"e"], ttl=10)
    clock.now += 9
    clusters.collect()
    assert clusters.find_affiliates("c") == [Affiliate(id="a", data=b"data", endpoints=[b"e"])]
    clusters.update("c", "a", b"data", [], ttl=10)
    clock.now += 2
    clusters.collect()
    assert clusters.find_affiliates("c") == [Affiliate(id="a", data=b"data")]
    clock.now += 8
    clusters.collect()
    assert clusters.find_affiliates("c") == []
    assert (clusters.counts.clusters, clusters.counts.affiliates, clusters.counts.endpoints) == (0, 0, 0)
    assert clusters.counts.gc_affiliates == 1


def test_endpoints_of_many_sources_are_merged(clusters: Clusters) -> None:
    clusters.update("c", "a", b"data", [b"1"], ttl=10)
    clusters.update("c", "a", b"", [b"1", b"2"], ttl=10)
    assert clusters.find_affiliates("c") == [Affiliate(id="a", data=b"data", endpoints=[b"1", b"2"])]


def test_a_node_has_room_for_its_own_endpoints(clusters: Clusters) -> None:
    clusters.update("c", "a", b"data", [b"1"], ttl=10)
    clusters.update("c", "a", b"", [b"x"], ttl=5)
    with pytest.raises(FullError):
        clusters.update("c", "a", b"", [b"y"], ttl=10)
    clusters.update("c", "a", b"data", [b"1", b"2"], ttl=10)
    assert clusters.find_affiliates("c") == [Affiliate(id="a", data=b"data", endpoints=[b"1", b"2"])]
    assert clusters.counts.endpoints == 2
    with pytest.raises(FullError):
        clusters.update("c", "a", b"data", [b"1", b"2", b"3"], ttl=10)


def test_a_refresh_wakes_no_watcher(clusters: Clusters) -> None:
    clusters.update("c", "a", b"data", [b"1"], ttl=10)
    snapshot, subscription = clusters.subscribe("c")
    assert [affiliate.id for affiliate in snapshot] == ["a"]
    clusters.update("c", "a", b"data", [b"1"], ttl=20)
    assert not has_changes(subscription)


def test_a_slow_reader_gets_the_latest_of_each(clusters: Clusters) -> None:
    _, subscription = clusters.subscribe("c")
    for number in range(100):
        clusters.update("c", "a", b"%d" % number, [], ttl=10)
    clusters.update("c", "b", b"data", [], ttl=10)
    clusters.delete("c", "b")
    assert changes(subscription) == ([Affiliate(id="a", data=b"99")], ["b"])


def test_a_reader_that_is_too_far_behind_is_ended(clusters: Clusters) -> None:
    _, subscription = clusters.subscribe("c")
    for number in range(1000):
        clusters.update("c", f"{number}", b"data", [], ttl=10)
        clusters.delete("c", f"{number}")
    with pytest.raises(FullError, match="too many changes wait"):
        changes(subscription)


def test_nothing_is_kept_of_a_first_update_that_is_refused(clusters: Clusters) -> None:
    with pytest.raises(FullError, match="too many endpoints in the affiliate"):
        clusters.update("c", "a", b"", [b"1", b"2", b"3"], ttl=10)
    assert clusters.counts.clusters == 0
    clusters.update("d", "a", b"", [], ttl=10)
    clusters.update("e", "a", b"", [], ttl=10)
    assert clusters.counts.clusters == SMALL.clusters


def test_everything_is_bounded(clusters: Clusters) -> None:
    clusters.update("c", "a", b"", [b"1"], ttl=10)
    with pytest.raises(FullError, match="too many endpoints in the affiliate"):
        clusters.update("c", "a", b"", [b"2", b"3"], ttl=10)
    assert clusters.find_affiliates("c") == [Affiliate(id="a", endpoints=[b"1"])]
    clusters.update("c", "b", b"", [], ttl=10)
    clusters.update("c", "c", b"", [], ttl=10)
    with pytest.raises(FullError, match="too many affiliates in the cluster"):
        clusters.update("c", "d", b"", [], ttl=10)
    clusters.update("d", "a", b"", [], ttl=10)
    with pytest.raises(FullError, match=r"too many affiliates$"):
        clusters.update("d", "b", b"", [], ttl=10)
    with pytest.raises(FullError, match="too many clusters"):
        clusters.update("e", "a", b"", [], ttl=10)
    clusters.subscribe("c")
    clusters.subscribe("c")
    with pytest.raises(FullError, match="too many subscriptions to the cluster"):
        clusters.subscribe("c")
    _, subscription = clusters.subscribe("d")
    clusters.unsubscribe("d", subscription)
    assert clusters.counts.subscriptions == 2


def test_an_update_with_a_shorter_time_takes_none_away(clusters: Clusters, clock: Clock) -> None:
    clusters.update("c", "a", b"data", [b"1"], ttl=10)
    clusters.update("c", "a", b"data", [b"1", b"2"], ttl=5)
    clock.now += 5
    clusters.collect()
    assert clusters.find_affiliates("c") == [Affiliate(id="a", data=b"data", endpoints=[b"1"])]
    clock.now += 5
    clusters.collect()
    assert clusters.find_affiliates("c") == []


def test_what_has_expired_is_a_change_and_counted(clusters: Clusters, clock: Clock) -> None:
    clusters.update("c", "a", b"data", [b"1"], ttl=5)
    clusters.update("c", "a", b"data", [b"2"], ttl=10)
    clusters.update("d", "a", b"data", [], ttl=5)
    clusters.update("d", "b", b"data", [], ttl=5)
    _, subscription = clusters.subscribe("c")
    clusters.collect()
    assert not has_changes(subscription)
    clock.now += 5
    clusters.collect()
    assert changes(subscription) == ([Affiliate(id="a", data=b"data", endpoints=[b"2"])], [])
    clock.now += 5
    clusters.collect()
    assert changes(subscription) == ([], ["a"])
    counts = clusters.counts
    assert (counts.gc_runs, counts.gc_affiliates, counts.gc_clusters) == (3, 3, 1)
    assert (counts.clusters, counts.affiliates, counts.endpoints, counts.subscriptions) == (1, 0, 0, 1)


def test_subscriptions_to_all_clusters_are_bounded(clusters: Clusters) -> None:
    _, first = clusters.subscribe("c")
    clusters.subscribe("c")
    clusters.subscribe("d")
    with pytest.raises(FullError, match=r"too many subscriptions$"):
        clusters.subscribe("d")
    clusters.unsubscribe("c", first)
    clusters.subscribe("d")


def test_a_reader_may_be_behind_by_twice_the_affiliates_of_a_cluster(clusters: Clusters) -> None:
    _, subscription = clusters.subscribe("c")
    allowed = [f"{number}" for number in range(2 * SMALL.cluster_affiliates)]
    for one in allowed:
        clusters.update("c", one, b"data", [], ttl=10)
        clusters.delete("c", one)
    assert changes(subscription) == ([], allowed)
    for one in (*allowed, "more"):
        clusters.update("c", one, b"data", [], ttl=10)
        clusters.delete("c", one)
    with pytest.raises(FullError, match="too many changes wait"):
        changes(subscription)


def test_what_is_not_there_is_deleted_without_a_trace(clusters: Clusters) -> None:
    clusters.delete("c", "a")
    clusters.update("c", "a", b"data", [], ttl=10)
    _, subscription = clusters.subscribe("c")
    clusters.delete("c", "b")
    assert not has_changes(subscription)
    assert (clusters.counts.clusters, clusters.counts.affiliates) == (1, 1)
    clusters.unsubscribe("c", subscription)
    clusters.delete("c", "b")
    assert (clusters.counts.clusters, clusters.counts.affiliates) == (1, 1)
    clusters.delete("c", "a")
    assert (clusters.counts.clusters, clusters.counts.affiliates) == (0, 0)


def test_a_change_is_sent_once(clusters: Clusters) -> None:
    async def check() -> None:
        _, subscription = clusters.subscribe("c")
        for endpoints in ([], [b"1"]):
            clusters.update("c", "a", b"", endpoints, ttl=10)
            assert await receive(subscription) == ([Affiliate(id="a", endpoints=endpoints)], [])
            with pytest.raises(TimeoutError):
                await receive(subscription)

    asyncio.run(check())


def test_a_cluster_that_is_watched_stays(clusters: Clusters) -> None:
    _, subscription = clusters.subscribe("c")
    clusters.collect()
    clusters.update("c", "a", b"data", [], ttl=10)
    assert changes(subscription)[0][0].id == "a"
    clusters.delete("c", "a")
    clusters.unsubscribe("c", subscription)
    assert clusters.counts.clusters == 0
