"""Which pending connection makes room for a new one."""

import pytest

from talos.rpc.port.addresses import format_address, network_of
from talos.rpc.port.pending import MAX_KNOWN, RECENT, RESERVED, KnownNetworks, Pending


class Stage:
    """A stage of pending connections and the names of those that were dropped."""

    def __init__(self, limit: int) -> None:
        self.now = 0.0
        self.known = KnownNetworks(lambda: self.now)
        self.pending = Pending(limit, self.known)
        self.dropped: list[str] = []

    def add(self, network: str, count: int = 1) -> None:
        for _ in range(count):
            name = f"{network}-{len(self.dropped)}"
            self.pending.add(network, lambda name=name: self.dropped.append(name))

    @property
    def networks(self) -> list[str]:
        return [name.partition("-")[0] for name in self.dropped]


def test_the_busiest_network_loses_its_oldest_connection() -> None:
    stage = Stage(4)
    stage.add("a")
    stage.add("b", 3)
    stage.add("c", 2)
    assert stage.networks == ["b", "b"]


def test_the_oldest_goes_when_all_are_equal() -> None:
    stage = Stage(3)
    for network in "abcde":
        stage.add(network)
    assert stage.networks == ["a", "b"]


def test_known_networks_are_the_last_to_go() -> None:
    stage = Stage(RESERVED + 4)
    stage.known.add("known")
    stage.add("known", RESERVED)
    for number in range(40):
        stage.add(f"new{number}")
    assert "known" not in stage.networks
    # Beyond its share it is as any other.
    stage.add("known", 4)
    assert stage.networks[-1] == "known"


def test_a_network_is_known_for_a_while() -> None:
    stage = Stage(1)
    stage.now = RECENT
    stage.known.add("a")
    assert "a" in stage.known
    assert "b" not in stage.known
    stage.now += RECENT - 1
    assert "a" in stage.known
    stage.now += 1
    assert "a" not in stage.known


def test_the_network_that_is_known_for_longest_is_forgotten_first() -> None:
    stage = Stage(1)
    for number in range(MAX_KNOWN):
        stage.known.add(f"{number}")
    assert "0" in stage.known
    stage.known.add("0")
    stage.known.add("one more")
    assert "0" in stage.known
    assert "1" not in stage.known


def test_all_of_a_stage_are_dropped_once() -> None:
    stage = Stage(2)
    stage.add("a", 2)
    stage.pending.clear()
    stage.pending.clear()
    stage.add("b", 2)
    assert stage.networks == ["a", "a"]


def test_one_that_has_left_is_not_dropped() -> None:
    stage = Stage(1)
    entry = stage.pending.add("a", lambda: stage.dropped.append("a"))
    stage.pending.remove(entry)
    stage.pending.remove(entry)
    stage.add("b")
    assert not stage.dropped


@pytest.mark.parametrize(
    ("host", "network", "text"),
    [
        ("10.5.0.2", "10.5.0.2", "10.5.0.2:1"),
        ("::ffff:10.5.0.2", "10.5.0.2", "10.5.0.2:1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", "[2001:db8:1:2:3:4:5:6]:1"),
        ("fe80::1%eth0", "fe80::/64", "[fe80::1%eth0]:1"),
    ],
)
def test_addresses(host: str, network: str, text: str) -> None:
    assert network_of(host) == network
    assert format_address((host, 1)) == text
