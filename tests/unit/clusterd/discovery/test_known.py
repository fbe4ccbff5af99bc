"""What a discovery server reports, honestly and not."""

import os

import pytest

from talos.api.discovery.affiliate_pb2 import Affiliate as Payload
from talos.api.discovery.affiliate_pb2 import Endpoint
from talos.api.discovery.cluster_pb2 import Affiliate, WatchResponse
from talos.clusterd.discovery.cipher import PayloadCipher
from talos.clusterd.discovery.known import DELETED, MAX_AFFILIATES, MAX_DATA, MAX_ENDPOINTS, KnownAffiliates
from talos.clusterd.discovery.payload import MAX_ADDRESSES
from talos.system.logging import Log

CIPHER = PayloadCipher(bytes(range(32)))


class Lines(list[str]):
    pass


@pytest.fixture
def lines() -> Lines:
    return Lines()


class Clock:
    now = 1000.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def known(lines: Lines, clock: Clock) -> KnownAffiliates:
    return KnownAffiliates(CIPHER, "own", Log(write=lines.append), lambda: clock.now)


def sealed(
    id: str, *, node_id: str = "", hostname: str = "host", cipher: PayloadCipher = CIPHER
) -> Affiliate:
    return Affiliate(id=id, data=cipher.seal(Payload(node_id=node_id or id, hostname=hostname)))


def response(*affiliates: Affiliate, deleted: bool = False) -> WatchResponse:
    return WatchResponse(affiliates=affiliates, deleted=deleted)


def test_affiliates_come_change_and_go(known: KnownAffiliates, clock: Clock) -> None:
    first = sealed("a")
    assert known.take_snapshot(response(first))
    assert not known.take_changes(response(first)), "a refresh is no change"
    assert not known.take_changes(response(sealed("a"))), "nor are the same data encrypted anew"
    last = sealed("a", hostname="other")
    assert known.take_changes(response(last))
    assert known.affiliates["a"].hostname == "other"
    assert not known.take_changes(response(Affiliate(id="a"), deleted=True))
    clock.now += DELETED
    assert known.drop_deleted()
    assert not known.affiliates
    assert not known.take_changes(response(Affiliate(id="a"), deleted=True))
    assert not known.has_deleted
    assert known.take_changes(response(last)), "the same bytes as before are news again"


def test_one_that_is_back_soon_was_not_deleted(known: KnownAffiliates, clock: Clock) -> None:
    node = sealed("a")
    known.take_snapshot(response(node))
    known.take_changes(response(Affiliate(id="a"), deleted=True))
    clock.now += DELETED / 2
    assert not known.drop_deleted()
    assert not known.take_changes(response(Affiliate(id="a", data=b"nonsense"))), "another's data are no sign"
    assert known.has_deleted
    assert not known.take_changes(response(node))
    clock.now += DELETED
    assert not known.drop_deleted()
    assert [*known.affiliates] == ["a"]


def test_a_node_keeps_its_key(known: KnownAffiliates, lines: Lines, clock: Clock) -> None:
    def with_key(key: str, hostname: str) -> Affiliate:
        payload = Payload(node_id="a", hostname=hostname)
        payload.kubespan.public_key = key
        return Affiliate(id="a", data=CIPHER.seal(payload))

    known.take_snapshot(response(with_key("first", "host")))
    assert not known.take_changes(response(with_key("other", "evil")))
    assert "another key for KubeSpan than before" in lines[0]
    assert known.take_changes(response(with_key("first", "renamed")))
    assert known.take_changes(response(sealed("a"))), "KubeSpan can be switched off"
    known.take_changes(response(Affiliate(id="a"), deleted=True))
    clock.now += DELETED
    known.drop_deleted()
    assert known.take_changes(response(with_key("other", "made anew")))


def test_what_others_do_under_this_nodes_id_is_noticed(known: KnownAffiliates) -> None:
    own = sealed("own")
    known.take_snapshot(response(own))
    assert not known.is_replaced, "it has published nothing yet"
    known.own_data = own.data
    known.take_changes(response(own, Affiliate(id="own", endpoints=[b"1"])))
    assert (known.is_replaced, known.is_deleted) == (False, False)
    known.take_changes(response(Affiliate(id="own", data=b"nonsense")))
    known.take_changes(response(Affiliate(id="own"), deleted=True))
    assert (known.is_replaced, known.is_deleted) == (True, True)


def test_a_server_that_has_forgotten_everything_gets_time(known: KnownAffiliates) -> None:
    first = sealed("c")
    known.take_snapshot(response(sealed("a"), sealed("b"), first))
    assert not known.take_snapshot(response())
    known.take_changes(response(sealed("a"), first))
    assert known.drop_stale()
    assert [*known.affiliates] == ["a", "c"]
    assert not known.drop_stale()


def test_what_was_known_before_a_restart_gets_time(known: KnownAffiliates) -> None:
    other = KnownAffiliates(CIPHER, "own", Log(write=lambda _: None))
    other.take_snapshot(response(sealed("a"), sealed("b")))
    known.restore(other.affiliates)
    assert not known.take_snapshot(response(sealed("a")))
    assert [*known.affiliates] == ["a", "b"]
    assert known.drop_stale()
    assert [*known.affiliates] == ["a"]
    assert [*other.affiliates] == ["a", "b"], "what was restored is not shared"


def test_one_that_has_published_nothing_yet_is_no_mistake(known: KnownAffiliates, lines: Lines) -> None:
    assert not known.take_snapshot(response(Affiliate(id="a", endpoints=[bytes(16)])))
    assert (known.affiliates, lines) == ({}, [])


def test_lies_are_refused_and_logged_once_each(known: KnownAffiliates, lines: Lines) -> None:
    foreign = PayloadCipher(bytes(32))
    known.take_snapshot(response(sealed("a")))
    for number in range(100):
        known.take_changes(
            response(
                sealed(f"b{number}", node_id="a", hostname="evil"),
                sealed(f"c{number}", cipher=foreign),
                Affiliate(id=f"d{number}", data=os.urandom(100)),
                Affiliate(id=f"e{number}", data=os.urandom(5000)),
                Affiliate(id="x" * 10_000, data=b"1"),
                Affiliate(id=f"f{number}"),
                Affiliate(id="", data=b"1"),
            )
        )
    assert [*known.affiliates] == ["a"]
    assert known.affiliates["a"].hostname == "host"
    assert len(lines) == 3
    assert "its data are another node's" in lines[0]


def test_endpoints_that_are_damaged_are_left_out(known: KnownAffiliates, lines: Lines) -> None:
    payload = Payload(node_id="a")
    payload.kubespan.public_key = "key"
    affiliate = Affiliate(id="a", data=CIPHER.seal(payload))
    affiliate.endpoints.extend([b"", b"x" * 15, b"y" * 17] * 100)
    known.take_snapshot(response(affiliate))
    assert "a" in known.affiliates
    assert len(lines) == 1


@pytest.mark.parametrize(("damaged", "found"), [(MAX_ENDPOINTS - 1, 1), (MAX_ENDPOINTS, 0)])
def test_the_endpoints_that_are_decrypted_are_bounded(
    known: KnownAffiliates, damaged: int, found: int
) -> None:
    payload = Payload(node_id="a")
    payload.kubespan.public_key = "key"
    affiliate = Affiliate(id="a", data=CIPHER.seal(payload), endpoints=[b""] * damaged)
    affiliate.endpoints.append(CIPHER.seal_endpoint(Endpoint(ip=bytes((192, 0, 2, 1)), port=51820)))
    known.take_snapshot(response(affiliate))
    assert len(known.affiliates["a"].kube_span.endpoints) == found


def test_a_nodes_own_addresses_precede_what_others_add(known: KnownAffiliates) -> None:
    payload = Payload(node_id="a", addresses=[bytes((192, 0, 2, 1))])
    payload.kubespan.public_key = "key"
    affiliate = Affiliate(id="a", data=CIPHER.seal(payload))
    for last in (*range(2, 2 + MAX_ADDRESSES), 1):
        affiliate.endpoints.append(CIPHER.seal_endpoint(Endpoint(ip=bytes((192, 0, 2, last)), port=51820)))
    known.take_snapshot(response(affiliate))
    endpoints = known.affiliates["a"].kube_span.endpoints
    assert (endpoints[0].ip[3], endpoints[1].ip[3], len(endpoints)) == (1, 2, MAX_ADDRESSES)


def test_a_flood_of_valid_affiliates_is_bounded(known: KnownAffiliates, lines: Lines) -> None:
    known.take_snapshot(response(*(sealed(f"{number}") for number in range(MAX_AFFILIATES + 100))))
    assert len(known.affiliates) == MAX_AFFILIATES
    assert len(lines) == 1
    assert known.take_changes(response(sealed("0", hostname="other"))), "those that are known may change"


@pytest.mark.parametrize("more", [0, 1])
def test_the_data_of_an_affiliate_are_bounded(known: KnownAffiliates, more: int) -> None:
    room = MAX_DATA - len(sealed("a", hostname="x" * 1000).data) + 1000
    affiliate = sealed("a", hostname="x" * (room + more))
    assert len(affiliate.data) == MAX_DATA + more
    assert known.take_snapshot(response(affiliate)) is (more == 0)


def test_the_line_of_an_id_that_is_too_long_is_short(known: KnownAffiliates, lines: Lines) -> None:
    known.take_snapshot(response(Affiliate(id="x" * 10_000, data=b"1")))
    assert len(lines) == 1
    assert "x" * 64 in lines[0]
    assert "x" * 65 not in lines[0]


def test_an_id_that_others_publish_under_is_no_second_node(known: KnownAffiliates, lines: Lines) -> None:
    known.take_snapshot(response(sealed("own", hostname="before the name of this node is known")))
    known.own_hostname = "host"
    known.take_changes(response(sealed("own", node_id="a", hostname="copy")))
    known.take_changes(response(Affiliate(id="own", data=b"garbage")))
    assert not lines


def test_a_second_node_with_this_identity_is_reported(known: KnownAffiliates, lines: Lines) -> None:
    known.own_hostname = "host"
    known.take_snapshot(response(sealed("own")))
    assert not lines
    for _ in range(3):
        known.take_changes(response(sealed("own", hostname="copy")))
    assert len(lines) == 1
    assert "'copy' publishes itself with this node's identity own: reset one of the two" in lines[0]
    assert not known.affiliates
