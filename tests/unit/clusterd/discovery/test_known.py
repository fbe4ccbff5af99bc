"""What a discovery server reports, honestly and not."""

import os

import pytest

from talos.api.discovery.affiliate_pb2 import Affiliate as Payload
from talos.api.discovery.cluster_pb2 import Affiliate, WatchResponse
from talos.clusterd.discovery.cipher import PayloadCipher
from talos.clusterd.discovery.known import MAX_AFFILIATES, KnownAffiliates
from talos.system.logging import Log

CIPHER = PayloadCipher(bytes(range(32)))


class Lines(list[str]):
    pass


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def known(lines: Lines) -> KnownAffiliates:
    return KnownAffiliates(CIPHER, "own", Log(write=lines.append))


def sealed(
    id: str, *, node_id: str = "", hostname: str = "host", cipher: PayloadCipher = CIPHER
) -> Affiliate:
    return Affiliate(id=id, data=cipher.seal(Payload(node_id=node_id or id, hostname=hostname)))


def response(*affiliates: Affiliate, deleted: bool = False) -> WatchResponse:
    return WatchResponse(affiliates=affiliates, deleted=deleted)


def test_affiliates_come_change_and_go(known: KnownAffiliates) -> None:
    first = sealed("a")
    assert known.take_snapshot(response(first))
    assert not known.take_changes(response(first)), "a refresh is no change"
    assert not known.take_changes(response(sealed("a"))), "nor are the same data encrypted anew"
    assert known.take_changes(response(sealed("a", hostname="other")))
    assert known.affiliates["a"].hostname == "other"
    assert known.take_changes(response(Affiliate(id="a"), deleted=True))
    assert not known.affiliates


def test_a_server_that_has_forgotten_everything_gets_time(known: KnownAffiliates) -> None:
    known.take_snapshot(response(sealed("a"), sealed("b")))
    assert not known.take_snapshot(response())
    known.take_changes(response(sealed("a")))
    assert known.drop_stale()
    assert [*known.affiliates] == ["a"]
    assert not known.drop_stale()


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


def test_a_flood_of_valid_affiliates_is_bounded(known: KnownAffiliates, lines: Lines) -> None:
    known.take_snapshot(response(*(sealed(f"{number}") for number in range(MAX_AFFILIATES + 100))))
    assert len(known.affiliates) == MAX_AFFILIATES
    assert len(lines) == 1


def test_a_second_node_with_this_identity_is_reported(known: KnownAffiliates, lines: Lines) -> None:
    known.own_hostname = "host"
    known.take_snapshot(response(sealed("own")))
    assert not lines
    for _ in range(3):
        known.take_changes(response(sealed("own", hostname="copy")))
    assert len(lines) == 1
    assert "'copy' publishes itself with this node's identity own: reset one of the two" in lines[0]
    assert not known.affiliates
