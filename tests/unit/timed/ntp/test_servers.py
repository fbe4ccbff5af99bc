"""Queries of several servers, again and again."""

from pathlib import Path

import pytest
import trio
from tests.harness.namespace import run_in_namespace
from tests.unit.timed.chrony import chrony
from tests.unit.timed.ntp.test_client import reply, server
from trio.testing import MockClock

from talos.api.rpc import Code, RpcError
from talos.process.run import Daemon
from talos.system.clock import KernelClock
from talos.system.logging import Log
from talos.timed.ntp.client import PLAIN, Protection
from talos.timed.ntp.servers import RATE_BACKOFF, RETRY_BACKOFF, OpenSession, Servers, Session, open_plain

NOW = 1_800_000_000.0


def open_at(ports: dict[str, list[int]], opened: list[str]) -> OpenSession:
    async def plain() -> Protection:
        return PLAIN

    async def open_session(name: str) -> Session:
        opened.append(name)
        if name not in ports:
            raise RpcError(Code.UNAVAILABLE, f"{name} can't be resolved")
        return Session(addresses=[("127.0.0.1", port) for port in ports[name]], make_protection=plain)

    return open_session


async def test_a_name_without_an_answer_delays_no_other() -> None:
    opened: list[str] = []
    async with server(lambda packet: reply(packet, NOW)) as port:
        servers = Servers(["dead", "alive"], open_at({"alive": [port]}, opened), lambda: NOW, Log({}))
        assert [sample.server for sample in await servers.query()] == ["alive"]
        await servers.query()
    # An open session stays, a name that failed is resolved anew.
    assert sorted(opened) == ["alive", "dead", "dead"]


async def test_another_address_of_the_name_is_queried_after_failures() -> None:
    opened: list[str] = []
    async with server(lambda _: b"garbage") as silent, server(lambda packet: reply(packet, NOW)) as alive:
        servers = Servers(["pool"], open_at({"pool": [silent, alive]}, opened), lambda: NOW, Log({}))
        answers = [len(await servers.query()) for _ in range(3)]
    assert answers == [0, 0, 1]
    assert opened == ["pool"]


async def test_servers_that_never_answer_are_queried_ever_later() -> None:
    async with server(lambda packet: reply(packet, NOW)) as port:
        ports = dict[str, list[int]]()
        servers = Servers(["a"], open_at(ports, []), lambda: NOW, Log({}))
        delays = list[float]()
        for _ in range(1100):
            await servers.query()
            delays.append(servers.retry)
        assert delays[:7] == [2, 4, 8, 16, 32, 64, 64]
        assert delays[-1] == RETRY_BACKOFF.limit
        ports["a"] = [port]
        assert await servers.query()
        assert servers.retry == RETRY_BACKOFF.initial


@pytest.mark.parametrize(
    ("kiss", "pause"),
    [(b"RATE", RATE_BACKOFF.initial), (b"DENY", RATE_BACKOFF.limit), (b"RSTR", RATE_BACKOFF.limit)],
)
async def test_a_server_that_refuses_is_left_alone(
    kiss: bytes, pause: float, autojump_clock: MockClock
) -> None:
    del autojump_clock
    queries: list[bytes] = []

    def refuse(packet: bytes) -> bytes:
        queries.append(packet)
        good = reply(packet, NOW, stratum=0)
        return good[:12] + kiss + good[16:]

    opened: list[str] = []
    async with server(refuse) as port:
        servers = Servers(["a"], open_at({"a": [port]}, opened), lambda: NOW, Log({}))
        await servers.query()
        await trio.sleep(pause - 1)
        await servers.query()
        assert len(queries) == 1
        await trio.sleep(1)
        await servers.query()
        assert len(queries) == 2


@pytest.mark.root
def test_chrony_answers(tmp_path: Path) -> None:
    async def query(daemon: Daemon) -> None:
        async with chrony(daemon, tmp_path):
            [sample] = await Servers(["127.0.0.1"], open_plain, KernelClock().now, daemon.log).query()
        # It is one and the same clock: what is measured is how unevenly the answer was delayed.
        assert abs(sample.offset) <= sample.distance
        assert 0 < sample.distance < 0.5

    run_in_namespace(query)
