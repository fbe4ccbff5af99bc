"""The kernel's side of WireGuard's netlink messages, for a machine whose kernel has none; peers are up."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import batched
from typing import Self

from talos.system.net.netlink import (
    NLM_F_DUMP,
    iterate_attributes,
    make_attribute,
    make_generic,
    make_nested,
    parse_attributes,
    strip_generic,
)

# <linux/wireguard.h>
IFNAME, PEERS = 2, 8
PUBLIC_KEY, FLAGS, HANDSHAKE, RECEIVED, SENT, NETWORKS = 1, 3, 6, 7, 8, 9
REMOVE = 1
IN_MESSAGE = 16
"""Peers in a message, of which a dump has many."""
REKEY, KEEPALIVE = 120, 25
"""Seconds between handshakes, and between packets of a link at rest."""
PACKET = 32
"""Bytes of such a packet."""


@dataclass(slots=True)
class WireguardKernel:
    """One link, with what was set of it. ``now`` is the time of its clock, in seconds since the epoch."""

    now: Callable[[], float]
    settings: dict[int, bytes] = field(default_factory=dict[int, bytes])
    peers: dict[bytes, dict[int, bytes]] = field(default_factory=dict[bytes, dict[int, bytes]])
    changes: int = 0
    """Messages that changed something."""

    def open(self, protocol: int) -> Self:
        """Take the place of a netlink socket."""
        del protocol
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def find_family(self, name: str) -> int:
        """The number of WireGuard's family."""
        assert name == "wireguard"
        return 32

    def request(self, number: int, body: bytes, flags: int = 0) -> list[bytes]:
        """Answer a request for the link's state, or make a change."""
        del number
        attributes = parse_attributes(strip_generic(body))
        if flags & NLM_F_DUMP:
            return self._dump(attributes)
        self.changes += 1
        for _, item in iterate_attributes(attributes.pop(PEERS, b"")):
            peer = parse_attributes(item)
            key = peer[PUBLIC_KEY]
            if int.from_bytes(peer.pop(FLAGS), "little") & REMOVE:
                self.peers.pop(key, None)
            else:
                self.peers[key] = self.peers.get(key, {}) | peer
        self.settings |= attributes
        return []

    def _dump(self, wanted: dict[int, bytes]) -> list[bytes]:
        head = [make_attribute(kind, data) for kind, data in (self.settings | wanted).items()]
        now = self.now()
        size = int(now / KEEPALIVE) % 10_000 * PACKET
        live = {
            HANDSHAKE: struct.pack("=qq", int(now / REKEY) * REKEY, 0),
            RECEIVED: struct.pack("=Q", size),
            SENT: struct.pack("=Q", size),
        }
        answers = [make_generic(0, *head)]
        for part in batched(self.peers.values(), IN_MESSAGE, strict=False):
            peers = [
                make_nested(0, *(make_attribute(kind, data) for kind, data in (peer | live).items()))
                for peer in part
            ]
            answers.append(make_generic(0, make_nested(PEERS, *peers)))
        return answers
