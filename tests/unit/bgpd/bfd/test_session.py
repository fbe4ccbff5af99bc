"""Two BFD sessions that are joined."""

from talos.bgpd.bfd.packet import State, parse_packet
from talos.bgpd.bfd.session import BfdSession, Timers

TIMERS = Timers.make(transmit=100_000, receive=100_000, multiplier=3)


def run(one: BfdSession, two: BfdSession, begin: float, end: float) -> None:
    """Let time pass in steps of a hundredth of a second."""
    for step in range(int(begin * 100), int(end * 100)):
        for sender, receiver in ((one, two), (two, one)):
            if (data := sender.tick(step / 100)) and (packet := parse_packet(data)):
                receiver.receive(packet, step / 100)


def test_a_session_comes_up_and_silence_takes_it_down() -> None:
    one, two = BfdSession(TIMERS, 1, 0.0), BfdSession(TIMERS, 2, 0.0)
    run(one, two, 0, 5)
    assert (one.state, two.state) == (State.UP, State.UP)
    assert not one.has_failed
    assert one.deadline < 5.11
    one.tick(5.5)
    assert (one.state, one.has_failed) == (State.DOWN, True)


def test_packets_that_are_not_for_a_session_are_discarded() -> None:
    session = BfdSession(TIMERS, 1, 0.0)
    good = bytes.fromhex("204003180000000900000000000f4240000f424000000000")
    for place, value in ((0, 0x40), (2, 0), (3, 23), (3, 25), (7, 0), (1, 0xC0), (1, 0x44), (1, 0x41)):
        assert parse_packet(good[:place] + bytes((value,)) + good[place + 1 :]) is None
    assert parse_packet(good[:23]) is None
    packet = parse_packet(good)
    assert packet is not None
    session.receive(packet, 0.0)
    assert session.state is State.INIT
