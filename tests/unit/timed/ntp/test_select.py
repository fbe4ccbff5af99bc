"""What several time servers report together."""

import pytest

from talos.system.clock import Leap
from talos.timed.ntp.packet import Sample
from talos.timed.ntp.select import select


def make(server: str, offset: float, distance: float = 0.02, leap: Leap = Leap.NONE) -> Sample:
    return Sample(server=server, local=0.0, offset=offset, delay=0.01, distance=distance, leap=leap)


def test_one_server_is_believed() -> None:
    estimate = select([make("a", 3.0)])
    assert estimate is not None
    assert (estimate.offset, estimate.servers, estimate.rejected) == (3.0, ("a",), ())


def test_a_liar_is_left_out() -> None:
    estimate = select([make("a", 0.010), make("liar", 86_400.0), make("b", 0.012), make("c", 0.008)])
    assert estimate is not None
    assert estimate.offset == pytest.approx(0.010, abs=0.003)
    assert estimate.rejected == ("liar",)


def test_nearer_servers_weigh_more() -> None:
    estimate = select([make("near", 0.0, 0.01), make("far", 0.1, 0.2)])
    assert estimate is not None
    assert estimate.offset < 0.01
    assert estimate.servers == ("near", "far")


@pytest.mark.parametrize("offsets", [[], [0.0, 60.0], [0.0, 60.0, 120.0], [0.0, 0.01, 60.0, 60.01]])
def test_without_a_majority_there_is_no_time(offsets: list[float]) -> None:
    assert select([make(str(index), offset) for index, offset in enumerate(offsets)]) is None


def test_a_leap_second_needs_a_majority() -> None:
    samples = [make("a", 0.0, leap=Leap.INSERT), make("b", 0.0, leap=Leap.INSERT), make("c", 0.0)]
    estimate = select(samples)
    assert estimate is not None
    assert estimate.leap is Leap.INSERT
    lone = select([make("a", 0.0, leap=Leap.DELETE), make("b", 0.0), make("c", 0.0)])
    assert lone is not None
    assert lone.leap is Leap.NONE
