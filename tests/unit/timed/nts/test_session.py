"""Time that is authenticated by NTS, from a real chrony and from a forger."""

import struct
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509
from tests.harness.namespace import run_in_namespace
from tests.unit.timed.chrony import NAME, chrony, make_certificates

from talos.api.rpc import RpcError
from talos.pki.authority import CertificateAuthority
from talos.pki.keys import KeyType
from talos.process.run import Daemon
from talos.system.clock import KernelClock
from talos.timed.ntp.packet import make_request
from talos.timed.ntp.servers import Servers
from talos.timed.nts import session
from talos.timed.nts.key_exchange import Keys, exchange_keys, make_moment
from talos.timed.nts.records import Granted
from talos.timed.nts.session import NtsProtection, open_nts
from talos.timed.nts.siv import encrypt

KEYS = Keys(to_server=bytes(32), to_client=bytes(range(32)), granted=Granted(cookies=()))


def now(_certificate: x509.Certificate) -> datetime:
    return datetime.now(UTC)


def field(kind: int, body: bytes) -> bytes:
    return struct.pack("!HH", kind, 4 + len(body)) + body


def make_reply(request: bytes, *, cookie: bytes = b"n" * 100, key: bytes = KEYS.to_client) -> bytes:
    """What a server with the keys answers."""
    packet = b"\x24\1" + bytes(46) + request[48 : 48 + 36]
    sealed = encrypt(key, field(0x0204, cookie), (packet, b"N" * 16))
    return packet + field(0x0404, struct.pack("!HH", 16, len(sealed)) + b"N" * 16 + sealed)


def test_only_the_server_with_the_keys_is_believed() -> None:
    kept: list[bytes] = []
    protection = NtsProtection(KEYS, b"c" * 100, 2, kept.append)
    request = protection.seal(make_request(bytes(8)))
    good = make_reply(request)
    other = NtsProtection(KEYS, b"c" * 100, 0, kept.append).seal(make_request(bytes(8)))
    forged = {
        "plain": good[:48],
        "changed": good[:20] + b"x" + good[21:],
        "other keys": make_reply(request, key=bytes(32)),
        "answer to another request": make_reply(other),
        "cut": good[:-4],
        "odd length": good[:48] + struct.pack("!HH", 0x0104, 3) + good[52:],
        "without an identifier": good[:48] + good[84:],
    }
    assert [kind for kind, reply in forged.items() if protection.is_authentic(reply)] == []
    assert kept == []
    assert protection.is_authentic(good)
    assert kept == [b"n" * 100]


@pytest.mark.root
def test_chrony_gives_authenticated_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_certificates(tmp_path)
    monkeypatch.setattr(session, "exchange_keys", partial(exchange_keys, authorities=tmp_path / "ca.crt"))
    keys = (f"ntsserverkey {tmp_path}/server.key", f"ntsservercert {tmp_path}/server.crt")

    async def query(daemon: Daemon) -> None:
        async with chrony(daemon, tmp_path, *keys):
            servers = Servers([NAME], open_nts(now), KernelClock().now, daemon.log)
            # More than there are cookies: each reply brings a new one.
            samples = [sample for _ in range(12) for sample in await servers.query()]
        assert len(samples) == 12
        assert all(abs(sample.offset) < 0.05 for sample in samples)

    run_in_namespace(query)


@pytest.mark.root
def test_certificates_are_judged(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    stranger = tmp_path / "stranger.crt"
    stranger.write_bytes(CertificateAuthority.generate(KeyType.P256, organizations=["x"]).crt)
    keys = (f"ntsserverkey {tmp_path}/server.key", f"ntsservercert {tmp_path}/server.crt")

    async def query(daemon: Daemon) -> None:
        exchange = partial(exchange_keys, NAME, authorities=tmp_path / "ca.crt")
        async with chrony(daemon, tmp_path, *keys):
            await exchange(now)
            # A machine whose clock shows 1970 gets the time, unless its clock is known as right.
            await exchange(make_moment(lambda: 0.0, lambda: False))
            with pytest.raises(RpcError, match="not trusted"):
                await exchange(make_moment(lambda: 0.0, lambda: True))
            with pytest.raises(RpcError, match="not trusted"):
                await exchange_keys(NAME, now, authorities=stranger)
            with pytest.raises(RpcError, match="not trusted"):
                await exchange_keys("127.0.0.1", now, authorities=tmp_path / "ca.crt")

    run_in_namespace(query)
