"""The machines of a management service: who may join, and the address of each."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from hmac import compare_digest
from ipaddress import IPv6Address, IPv6Interface, IPv6Network

from talos.pki.wireguard import is_key

NETWORK = IPv6Network("fdae:41e4:649b:9303::/64")
"""As of upstream's test server."""
SERVER = IPv6Interface((NETWORK[1], NETWORK.prefixlen))
STREAM_NETWORK, STREAM_PORT = IPv6Network("fdae:41e4:649b:9304::/64"), 50888
"""Of the names of machines' streams, as of upstream's test server; nothing is reached there."""
MAX_MACHINES = 4096
_MAX_UUID = 64
"""Characters."""
_HOST_BYTES = 8

type Admit = Callable[[str, IPv6Address, str], None]
"""Makes a public key the peer at an address, in place of an older key, which is empty for none."""


class RefusedError(Exception):
    """The machine may not join, or what it has sent can't be used."""


class WrongTokenError(RefusedError):
    """The join token is another one."""


@dataclass(slots=True)
class Registry:
    """Machines by their UUID; an empty ``join_token`` admits everybody."""

    join_token: str = field(repr=False)
    admit: Admit
    keys: dict[str, str] = field(default_factory=dict[str, str])

    def join(self, uuid: str, public_key: str, join_token: str) -> IPv6Interface:
        """The machine's address, the same each time. RefusedError."""
        if self.join_token and not compare_digest(join_token.encode(), self.join_token.encode()):
            raise WrongTokenError("invalid join token")
        if not 0 < len(uuid) <= _MAX_UUID:
            raise RefusedError("the machine has no UUID")
        if not is_key(public_key):
            raise RefusedError("node_public_key is no key of WireGuard")
        if uuid not in self.keys and len(self.keys) >= MAX_MACHINES:
            raise RefusedError(f"{MAX_MACHINES} machines have joined, which is all")
        address = make_address(uuid)
        old = self.keys.get(uuid, "")
        if old != public_key:
            self.admit(public_key, address.ip, old)
        self.keys[uuid] = public_key
        return address


def make_address(uuid: str) -> IPv6Interface:
    """Of a machine, by its UUID alone: it survives the server."""
    return IPv6Interface((_place(uuid, NETWORK), NETWORK.prefixlen))


def make_stream_peer(uuid: str) -> str:
    """The name of a machine's stream of WireGuard's packets."""
    return f"[{_place(uuid, STREAM_NETWORK)}]:{STREAM_PORT}"


def _place(uuid: str, network: IPv6Network) -> IPv6Address:
    host = hashlib.sha256(uuid.encode()).digest()[:_HOST_BYTES]
    return IPv6Address(network.network_address.packed[:-_HOST_BYTES] + host)
