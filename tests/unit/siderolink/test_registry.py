"""Who joins a management service, and with which address."""

from ipaddress import IPv6Address

import pytest

from talos.pki.wireguard import make_private_key, make_public_key
from talos.siderolink import registry
from talos.siderolink.registry import NETWORK, SERVER, RefusedError, Registry, WrongTokenError

FIRST, SECOND = (make_public_key(make_private_key()) for _ in range(2))


class Peers:
    """Those of a WireGuard link."""

    def __init__(self) -> None:
        self.admitted: list[tuple[str, IPv6Address, str]] = []

    def admit(self, key: str, address: IPv6Address, old: str) -> None:
        self.admitted.append((key, address, old))


def test_a_machine_has_one_address_and_its_new_key_takes_the_place_of_the_old() -> None:
    peers = Peers()
    machines = Registry("token", peers.admit)
    address = machines.join("uuid", FIRST, "token")
    assert address.network == NETWORK
    assert address.ip != SERVER.ip
    assert machines.join("uuid", FIRST, "token") == machines.join("uuid", SECOND, "token") == address
    assert peers.admitted == [(FIRST, address.ip, ""), (SECOND, address.ip, FIRST)]
    assert machines.join("other", FIRST, "token") != address


def test_strangers_and_garbage_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MAX_MACHINES", 1)
    peers = Peers()
    machines = Registry("token", peers.admit)
    with pytest.raises(WrongTokenError, match="invalid join token"):
        machines.join("uuid", FIRST, "")
    for uuid, key in (("", FIRST), ("x" * 65, FIRST), ("uuid", FIRST[:-1]), ("uuid", "")):
        with pytest.raises(RefusedError):
            machines.join(uuid, key, "token")
    assert not peers.admitted
    machines.join("uuid", FIRST, "token")
    with pytest.raises(RefusedError, match="1 machines have joined"):
        machines.join("other", SECOND, "token")
    assert len(peers.admitted) == 1
