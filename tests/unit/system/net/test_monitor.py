"""The copies of the kernel's tables after changes of every kind, against new dumps of them."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

import pytest
import trio
from pyroute2 import AsyncIPRoute
from tests.harness.limits import REAL_TIMEOUT
from tests.harness.namespace import run_in_namespace

from talos.networkd.controllers.link_status import make_status
from talos.process.run import Daemon
from talos.system.net import monitor
from talos.system.net.kernel_links import KernelLinks, open_links
from talos.system.net.links import RTN_UNICAST, AddressState, RouteState, Topic
from talos.system.net.monitor import Monitor

pytestmark = pytest.mark.root

ROOM = 8
TOPICS = (Topic.LINK, Topic.ADDRESS, Topic.ROUTE, Topic.RULE)


async def snapshot(links: KernelLinks) -> dict[Topic, set[Any]]:
    return {topic: set(await links.monitor.read(topic)) for topic in TOPICS}


async def run_foreign(daemon: Daemon, *changes: Callable[[Any], Awaitable[object]]) -> None:
    """Make changes as another program does, on a socket of its own."""

    async def make() -> None:
        async with AsyncIPRoute() as route:
            for change in changes:
                await change(route)

    await trio.to_thread.run_sync(asyncio.run, make())


async def check(daemon: Daemon, links: KernelLinks, what: str) -> None:
    """What the copies hold is what the kernel has, after a while: a new address of IPv6 comes late."""
    copies, fresh = await snapshot(links), await read_again(daemon)
    deadline = trio.current_time() + REAL_TIMEOUT
    while copies != fresh and trio.current_time() < deadline:
        await trio.sleep(0.05)
        copies, fresh = await snapshot(links), await read_again(daemon)
    for topic in TOPICS:
        assert copies[topic] == fresh[topic], f"{what}: {topic}"


async def read_again(daemon: Daemon) -> dict[Topic, set[Any]]:
    async with open_links() as others:
        return await snapshot(others)


async def change_everything(daemon: Daemon) -> None:
    async with open_links() as links:
        await snapshot(links)
        await links.add_link("one", {"kind": "veth", "peer": {"ifname": "two"}})
        await links.add_link("bridge", {"kind": "bridge", "br_stp_state": 1})
        index = {link.name: link.index for link in await links.links()}
        assert {"one", "two", "bridge"} <= set(index)
        for name in ("lo", "one", "two", "bridge"):
            await links.set_link(index[name], up=True)
        await check(daemon, links, "links up")
        await links.set_link(index["two"], master=index["bridge"])
        await check(daemon, links, "a port of a bridge")
        for text in ("10.1.0.1/24", "fd00::1/64"):
            address = AddressState(link_index=index["one"], address=ip_interface(text))
            await links.add_address(address)
            assert (index["one"], address.address) in {
                (item.link_index, item.address) for item in await links.addresses()
            }
        await check(daemon, links, "addresses")
        via = RouteState(family=2, gateway=ip_address("10.1.0.2"), link_index=index["one"], priority=1024)
        routes = [replace(via, destination=ip_network(f"10.{number}.0.0/16")) for number in range(10, 20)]
        for route in [via, *routes]:
            await links.add_route(route)
        await check(daemon, links, "routes")
        await links.add_route(replace(via, gateway=ip_address("10.1.0.3"), mtu=1300))
        assert ip_address("10.1.0.3") in {route.gateway for route in await links.routes()}
        assert via.gateway not in {r.gateway for r in await links.routes() if r.destination is None}
        await check(daemon, links, "a replaced route")
        await links.remove_route(routes[0])
        await links.add_route(replace(routes[1], priority=7, source=ip_address("10.1.0.1")))
        await check(daemon, links, "a route removed, another with a source")
        rule = {"table": 100, "priority": 100, "src": "10.0.0.0/8"}
        await run_foreign(daemon, lambda route: route.rule("add", **rule))
        assert len(await links.rules()) == 6
        await check(daemon, links, "a rule")
        await run_foreign(
            daemon,
            lambda route: route.rule("del", **rule),
            lambda route: route.link("property_add", index=index["two"], altname="three"),
        )
        await check(daemon, links, "a rule less")
        await links.set_link(index["two"], master=0)
        await check(daemon, links, "no port of a bridge")
        address = AddressState(link_index=index["one"], address=ip_interface("10.1.0.1/24"))
        await links.remove_address(address)
        await check(daemon, links, "an address less, with its routes")
        await links.add_address(address)
        await links.add_route(via)
        await links.set_link(index["one"], up=False)
        assert not [r for r in await links.routes() if r.gateway is not None]
        await check(daemon, links, "a link down, with its routes")
        await links.set_link(index["one"], up=True)
        await links.add_route(via)
        await links.remove_link(index["one"])
        await check(daemon, links, "a link less")


def test_copies_are_what_the_kernel_has() -> None:
    run_in_namespace(change_everything)


async def watch_foreign_change(daemon: Daemon) -> None:
    async with open_links() as links:
        [loopback] = await links.links()
        await links.routes()
        async with links.watch(Topic.LINK) as changes, links.watch(Topic.ROUTE) as others:
            await run_foreign(
                daemon, lambda route: route.link("set", index=loopback.index, state="up", mtu=1300)
            )
            await anext(changes)
            [loopback] = await links.links()
            assert (loopback.is_up, loopback.mtu) == (True, 1300)
            await anext(others)
            # Setting what is set already: the kernel may notify, nothing has changed.
            for _ in range(3):
                await run_foreign(daemon, lambda route: route.link("set", index=loopback.index, mtu=1300))
            with trio.move_on_after(0.2) as quiet:
                await anext(changes)
            assert quiet.cancelled_caught


def test_a_change_of_another_program_wakes_who_watches() -> None:
    run_in_namespace(watch_foreign_change)


async def overflow(daemon: Daemon) -> None:
    async with open_links() as links:
        await snapshot(links)
        await links.add_link("one", {"kind": "veth", "peer": {"ifname": "two"}})
        index = {link.name: link.index for link in await links.links()}["one"]
        await links.set_link(index, up=True)
        await links.add_address(AddressState(link_index=index, address=ip_interface("10.1.0.1/24")))
        await snapshot(links)
        await run_foreign(
            daemon,
            *[partial(route_to, destination=f"10.2.{number}.0/24", index=index) for number in range(200)],
        )
        assert sum(route.gateway is not None for route in await links.routes()) == 200
        await check(daemon, links, "more notifications than the socket holds")


async def route_to(route: Any, *, destination: str, index: int) -> None:
    await route.route("add", dst=destination, gateway="10.1.0.2", oif=index)


def test_lost_notifications_are_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "BUFFER_BYTES", 1)
    run_in_namespace(overflow)


async def change_during_a_dump(daemon: Daemon) -> None:
    async with open_links() as links:
        await links.add_link("one", {"kind": "veth", "peer": {"ifname": "two"}})
        index = {link.name: link.index for link in await links.links()}
        table = links.monitor.tables[Topic.LINK]
        dump = table.dump

        async def dump_then_change(take: Callable[[Any], object]) -> None:
            await dump(take)
            await run_foreign(daemon, lambda route: route.link("set", index=index["one"], mtu=1400))
            copies.catch_up()  # as another task does that reads another table

        copies = Monitor([replace(table, dump=dump_then_change)])
        (one,) = [link for link in await copies.read(Topic.LINK) if link.name == "one"]
        assert one.mtu == 1400
        copies.close()


def test_a_change_during_a_dump_is_not_lost() -> None:
    run_in_namespace(change_during_a_dump)


async def learn_more_than_there_is_room_for(daemon: Daemon) -> None:
    async with open_links() as links:
        await links.add_link("one", {"kind": "veth", "peer": {"ifname": "two"}})
        index = {link.name: link.index for link in await links.links()}
        for name in ("one", "two"):
            await links.set_link(index[name], up=True)
        prefixes = [ip_network(f"fd00:0:0:{number:x}::/64") for number in range(ROOM * 2)]
        make = partial(RouteState, family=socket.AF_INET6, link_index=index["one"], priority=1024)
        advertised = [make(destination=prefix, protocol=2) for prefix in prefixes]
        for route in advertised[:ROOM]:
            await links.add_route(route)
        await links.routes()
        for route in advertised[ROOM:]:
            await links.add_route(route)
        await links.add_route(make(destination=None, protocol=9))
        await links.add_route(make(destination=ip_network("fd01::/64")))

        async def check_kept() -> None:
            routes = [route for route in await links.routes() if route.type == RTN_UNICAST]
            assert sum(route.protocol == 2 for route in routes) == ROOM
            assert {route.destination for route in routes if route.protocol != 2} == {
                None,
                ip_network("fd01::/64"),
            }

        await check_kept()
        links.monitor.mark_stale(Topic.ROUTE)
        await check_kept()
        known = await links.routes()
        await links.remove_route(next(route for route in advertised if route in known))
        await links.add_route(next(route for route in advertised if route not in known))
        await check_kept()


def test_of_what_routers_announce_only_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "MAX_LEARNED", ROOM)
    run_in_namespace(learn_more_than_there_is_room_for)


async def give_names_that_are_no_text(daemon: Daemon) -> None:
    async with open_links() as links:
        await links.add_link("one", {"kind": "veth", "peer": {"ifname": "two"}})
        for words in (
            (b"link", b"set", b"one", b"name", b"\xff\xfex"),
            (b"link", b"set", b"two", b"alias", b"\xffalias"),
            (b"link", b"property", b"add", b"dev", b"two", b"altname", b"\xffother"),
            (b"rule", b"add", b"iif", b"\xff\xfex", b"table", b"7"),
        ):
            await trio.run_process([b"ip", *words])
        found = {
            link.name: make_status(link, await links.identity(link.name)) for link in await links.links()
        }
        assert found.keys() == {"lo", "\\xff\\xfex", "two"}
        assert (found["two"].alias, found["two"].alt_names) == ("\\xffalias", ["\\xffother"])
        assert any(rule.input_link == "\\xff\\xfex" for rule in await links.rules())


def test_names_of_links_may_be_no_text() -> None:
    run_in_namespace(give_names_that_are_no_text)
