"""Token buckets, and the clients that they are counted by."""

import pytest

from talos.rpc.port.addresses import network_of, parse_peer
from talos.rpc.port.rates import CLIENTS, Rates


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_client_has_a_burst_then_a_rate() -> None:
    clock = Clock()
    rates = Rates(15, 60, now=clock)
    assert all(rates.take("a") == 0 for _ in range(60))
    assert 0 < rates.take("a") < 0.1
    assert rates.take("b") == 0
    clock.now += 1
    assert sum(rates.take("a") == 0 for _ in range(30)) == 14
    for _ in range(1000):
        rates.take("a", 100)
    assert rates.take("a") <= 4.1, "the debt is bounded"


def test_a_client_that_was_silent_has_one_burst() -> None:
    clock = Clock()
    rates = Rates(2, 10, now=clock)
    assert rates.take("a", 10) == 0
    clock.now += 3600
    assert rates.take("a", 10) == 0
    assert rates.take("a") == 0.5, "what was not taken is not kept"


def test_the_client_that_was_silent_for_longest_is_forgotten_first() -> None:
    rates = Rates(1, 1, now=Clock())
    for number in range(CLIENTS):
        assert rates.take(f"{number}") == 0
    assert rates.take("0") > 0, "there is room for all of them"
    assert rates.take("one more") == 0
    assert rates.take("0") > 0
    assert rates.take("1") == 0


@pytest.mark.parametrize(
    ("peer", "address", "client"),
    [
        ("ipv4:192.0.2.1:51234", "192.0.2.1", "192.0.2.1"),
        ("ipv6:%5B2001:db8:1:2:3::4%5D:51234", "2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:1", "fe80::1", "fe80::/64"),
        ("ipv6:%5B::ffff:192.0.2.1%5D:1", "192.0.2.1", "192.0.2.1"),
    ],
)
def test_a_client_is_its_address(peer: str, address: str, client: str) -> None:
    assert parse_peer(peer) == address
    assert network_of(address) == client


@pytest.mark.parametrize("peer", ["", "unix:", "ipv4:nonsense", "ipv6:%5B%5D:1"])
def test_a_peer_without_an_address_has_none(peer: str) -> None:
    assert parse_peer(peer) == ""
