"""The keys of an issuer that is up, changes them, and is down."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.harness.issuer import Issuer, serve_issuer

from talos.api.rpc import Code, RpcError
from talos.process.fetch import FetchError
from talos.system.logging import Log
from talos.trustd.login.keys import FETCH_INTERVAL, FRESH_TTL, STALE_TTL, IssuerKeys


@dataclass
class World:
    """A clock, and an issuer that may be down."""

    issuer: Issuer
    time: float = 1000.0
    is_down: bool = False
    fetches: int = 0
    lines: list[str] = field(default_factory=list[str])

    def get(self, url: str) -> bytes:
        self.fetches += url.endswith("/keys")
        if self.is_down:
            raise FetchError("connection refused")
        return self.issuer.pages[url.removeprefix(self.issuer.url)]

    def make(self) -> IssuerKeys:
        log = Log(write=self.lines.append)
        return IssuerKeys(self.issuer.url, "", log, get=self.get, now=lambda: self.time)


@pytest.fixture
def world(tmp_path: Path) -> World:
    with serve_issuer(tmp_path) as issuer:
        return World(issuer)


def find(keys: IssuerKeys) -> Callable[[str], str]:
    async def one(name: str) -> str:
        return str((await keys.find(name)).key_id)

    return lambda name: asyncio.run(one(name))


def test_keys_are_fetched_anew_when_they_are_old_or_one_is_missing(world: World) -> None:
    get = find(world.make())
    assert get("ec") == "ec"
    world.issuer.keys["new"] = world.issuer.keys.pop("ec")
    world.issuer.publish()
    assert get("ec") == "ec"
    with pytest.raises(RpcError, match="does not have"):
        get("new")
    world.time += FETCH_INTERVAL
    assert get("new") == "new"
    with pytest.raises(RpcError, match="does not have"):
        get("ec")
    assert world.fetches == 2
    world.time += FRESH_TTL + 1
    assert get("rsa") == "rsa"
    assert world.fetches == 3


def test_an_issuer_that_is_down_is_bridged_for_an_hour(world: World) -> None:
    get = find(world.make())
    world.is_down = True
    with pytest.raises(RpcError, match="connection refused") as caught:
        get("ec")
    assert caught.value.code is Code.UNAVAILABLE
    world.is_down = False
    world.time += FETCH_INTERVAL
    assert get("ec") == "ec"
    world.is_down = True
    world.time += STALE_TTL - 1
    assert get("ec") == "ec"
    world.time += FETCH_INTERVAL
    with pytest.raises(RpcError, match="the issuer's keys can't be had: connection refused"):
        get("ec")


def test_a_token_without_a_name_of_its_key_counts_where_there_is_one(world: World) -> None:
    get = find(world.make())
    with pytest.raises(RpcError, match="does not have"):
        get("")
    del world.issuer.keys["rsa"], world.issuer.keys["ed"]
    world.issuer.publish()
    world.time += FETCH_INTERVAL
    assert get("") == "ec"
