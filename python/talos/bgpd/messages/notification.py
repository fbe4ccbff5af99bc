"""NOTIFICATION: why a session ends (RFC 4271, sections 4.5 and 6), and the error that leads to one."""

import enum
from dataclasses import dataclass


class Code(enum.IntEnum):
    """What is wrong."""

    HEADER = 1
    OPEN = 2
    UPDATE = 3
    HOLD_TIMER_EXPIRED = 4
    STATE_MACHINE = 5
    CEASE = 6
    ROUTE_REFRESH = 7


class Cease(enum.IntEnum):
    """Subcodes of ``CEASE`` (RFC 4486, RFC 9384)."""

    MAX_PREFIXES = 1
    SHUTDOWN = 2
    DECONFIGURED = 3
    RESET = 4
    REJECTED = 5
    CONFIGURATION_CHANGE = 6
    COLLISION = 7
    OUT_OF_RESOURCES = 8
    HARD_RESET = 9
    BFD_DOWN = 10


_NAMES = {
    Code.HEADER: (
        "message header error",
        ("", "connection not synchronized", "bad message length", "bad message type"),
    ),
    Code.OPEN: (
        "OPEN message error",
        (
            "", "unsupported version", "bad peer AS", "bad BGP identifier", "unsupported optional parameter",
            "", "unacceptable hold time", "unsupported capability",
        ),
    ),
    Code.UPDATE: (
        "UPDATE message error",
        (
            "", "malformed attribute list", "unrecognized well-known attribute",
            "missing well-known attribute",
            "attribute flags error", "attribute length error", "invalid ORIGIN", "", "invalid NEXT_HOP",
            "optional attribute error", "invalid network field", "malformed AS_PATH",
        ),
    ),
    Code.HOLD_TIMER_EXPIRED: ("hold timer expired", ()),
    Code.STATE_MACHINE: ("finite state machine error", ()),
    Code.CEASE: (
        "cease",
        (
            "", "maximum number of prefixes reached", "administrative shutdown", "peer de-configured",
            "administrative reset", "connection rejected", "other configuration change",
            "connection collision resolution", "out of resources", "hard reset", "BFD down",
        ),
    ),
    Code.ROUTE_REFRESH: ("ROUTE-REFRESH message error", ()),
}  # fmt: skip
"""By code: its name, and those of its subcodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One message."""

    code: int
    subcode: int = 0
    data: bytes = b""

    def __str__(self) -> str:
        """``cease: BFD down``, or the numbers of what has no name."""
        if self.code not in _NAMES:
            return f"error {self.code}/{self.subcode}"
        name, subcodes = _NAMES[Code(self.code)]
        if not self.subcode:
            return name
        detail = subcodes[self.subcode] if self.subcode < len(subcodes) else ""
        return f"{name}: {detail or self.subcode}"

    def format(self) -> bytes:
        """The message's body."""
        return bytes((self.code, self.subcode)) + self.data


def parse_notification(body: bytes) -> Notification:
    """A body of at least two bytes, which :mod:`talos.bgpd.messages.framing` guarantees."""
    return Notification(code=body[0], subcode=body[1], data=body[2:])


class BgpError(Exception):
    """The peer has broken the protocol so that the session has to end with this notification."""

    def __init__(self, code: Code, subcode: int = 0, data: bytes = b"") -> None:
        self.notification = Notification(code=code, subcode=subcode, data=data)
        super().__init__(str(self.notification))
