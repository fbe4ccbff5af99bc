"""Control packets of Bidirectional Forwarding Detection (RFC 5880, section 4.1), without authentication."""

import enum
import struct
from dataclasses import dataclass

_PACKET = struct.Struct(">BBBBIIIII")
PACKET_BYTES = _PACKET.size
_VERSION = 1
_POLL, _FINAL, _AUTHENTICATION, _MULTIPOINT = 0x20, 0x10, 0x04, 0x01


class State(enum.IntEnum):
    """States of a session; the values are the wire's."""

    ADMIN_DOWN = 0
    DOWN = 1
    INIT = 2
    UP = 3


class Diagnostic(enum.IntEnum):
    """Why a session went down last."""

    NONE = 0
    TIME_EXPIRED = 1
    NEIGHBOR_DOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """One packet. Intervals are in microseconds."""

    state: State
    diagnostic: int = 0
    is_poll: bool = False
    is_final: bool = False
    multiplier: int
    own_discriminator: int
    your_discriminator: int
    transmit_interval: int
    receive_interval: int

    def format(self) -> bytes:
        """The packet on the wire; no echoes are wanted."""
        flags = self.state << 6 | (_POLL if self.is_poll else 0) | (_FINAL if self.is_final else 0)
        return _PACKET.pack(
            _VERSION << 5 | self.diagnostic,
            flags,
            self.multiplier,
            PACKET_BYTES,
            self.own_discriminator,
            self.your_discriminator,
            self.transmit_interval,
            self.receive_interval,
            0,
        )


def parse_packet(data: bytes) -> Packet | None:
    """A packet, or None for what RFC 5880, section 6.8.6, has discarded."""
    if len(data) < PACKET_BYTES:
        return None
    head, flags, multiplier, length, own, your, transmit, receive, _ = _PACKET.unpack_from(data)
    state = State(flags >> 6)
    if (
        head >> 5 != _VERSION
        or not PACKET_BYTES <= length <= len(data)
        or flags & (_AUTHENTICATION | _MULTIPOINT)
    ):
        return None
    if not multiplier or not own or (not your and state not in {State.DOWN, State.ADMIN_DOWN}):
        return None
    return Packet(
        state=state,
        diagnostic=head & 0x1F,
        is_poll=bool(flags & _POLL),
        is_final=bool(flags & _FINAL),
        multiplier=multiplier,
        own_discriminator=own,
        your_discriminator=your,
        transmit_interval=transmit,
        receive_interval=receive,
    )
