"""Two sessions that are joined: opening, times, errors."""

from ipaddress import IPv4Address

import pytest

from talos.bgpd.messages.framing import KEEPALIVE, Kind, make_message
from talos.bgpd.messages.notification import Cease, Code, Notification
from talos.bgpd.messages.open_message import Agreement
from talos.bgpd.session import Event, Session, SessionEvent, SessionSettings, SessionState, wins_collision


def make_session(asn: int, peer: int, *, hold_time: int = 9, at: int = 0) -> Session:
    router_id = IPv4Address("10.0.0.1") + asn % 2 + at
    return Session(
        SessionSettings(local_asn=asn, peer_asn=peer, router_id=router_id, hold_time=hold_time), 0.0
    )


def join(one: Session, two: Session, now: float = 0.0) -> list[Event]:
    """Pass on what both send until neither does."""
    events: list[Event] = []
    while one.has_outgoing or two.has_outgoing:
        events += two.receive(one.take_outgoing(), now)
        events += one.receive(two.take_outgoing(), now)
    return events


def test_a_session_is_established() -> None:
    one, two = make_session(4200000001, 65000), make_session(65000, 0, hold_time=30)
    assert join(one, two).count(SessionEvent.ESTABLISHED) == 2
    assert one.agreement is not None
    assert two.agreement is not None
    assert (one.agreement.peer_asn, two.agreement.peer_asn) == (65000, 4200000001)
    assert one.agreement.hold_time == two.agreement.hold_time == 9
    assert one.deadline == 3


def test_silence_ends_a_session_after_the_hold_time() -> None:
    one, two = make_session(65001, 65000), make_session(65000, 65001)
    join(one, two)
    for now in (3.0, 6.0):
        one.tick(now)
        assert one.take_outgoing() == KEEPALIVE
    two.tick(9.0)
    assert two.ending == "hold timer expired (sent)"
    join(one, two)
    assert one.ending == "hold timer expired (received)"


@pytest.mark.parametrize(
    ("one", "two", "shown"),
    [
        (make_session(65001, 65002), make_session(65000, 0), "bad peer AS"),
        (make_session(65001, 0), make_session(65001, 0), "bad BGP identifier"),
    ],
)
def test_a_peer_that_may_not_be(one: Session, two: Session, shown: str) -> None:
    join(one, two)
    assert shown in one.ending


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (bytes(19), "connection not synchronized"),
        (b"\xff" * 16 + b"\0\x12\4", "bad message length"),
        (b"\xff" * 16 + b"\x10\1\2", "bad message length"),
        (b"\xff" * 16 + b"\0\x13\7", "bad message type"),
        (make_message(Kind.UPDATE, bytes(4)), "finite state machine error"),
        (make_message(Kind.OPEN, bytes(10)), "unsupported version"),
        (make_message(Kind.OPEN, b"\4\0\1\0\2\1\1\1\1\0"), "unacceptable hold time"),
        (make_message(Kind.OPEN, b"\4\0\1\0\0\0\0\0\0\0"), "bad BGP identifier"),
        (make_message(Kind.OPEN, b"\4\0\0\0\0\1\1\1\1\0"), "bad peer AS"),
        (make_message(Kind.OPEN, b"\4\0\1\0\0\1\1\1\1\2\1\0"), "unsupported optional parameter"),
        (make_message(Kind.OPEN, b"\4\0\1\0\0\1\1\1\1\3\2\0"), "OPEN message error"),
    ],
)
def test_a_malformed_message_is_answered_by_its_notification(data: bytes, shown: str) -> None:
    session = make_session(65001, 0)
    session.take_outgoing()
    assert not list(session.receive(data, 0.0))
    assert shown in session.ending
    assert session.take_outgoing()[18] == Kind.NOTIFICATION
    assert session.state is SessionState.IDLE


def test_a_notification_ends_a_session_without_an_answer() -> None:
    session = make_session(65001, 0)
    session.take_outgoing()
    body = Notification(code=Code.CEASE, subcode=Cease.SHUTDOWN, data=b"\3bye").format()
    assert not list(session.receive(make_message(Kind.NOTIFICATION, body), 0.0))
    assert session.ending == "cease: administrative shutdown (received)"
    assert not session.has_outgoing


def test_of_two_connections_that_of_the_larger_identifier_stays() -> None:
    one, two = make_session(65001, 65000), make_session(65000, 65001)
    join(one, two)
    agreements: list[Agreement] = [item.agreement for item in (one, two) if item.agreement]
    mine, theirs = IPv4Address("10.0.0.2"), IPv4Address("10.0.0.1")
    assert wins_collision(mine, 65001, agreements[0], is_own=True) is not wins_collision(
        theirs, 65000, agreements[1], is_own=True
    )
