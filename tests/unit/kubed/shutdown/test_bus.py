"""The bus and logind on it, with a client of D-Bus that is not ours."""

# jeepney has no types.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from jeepney import DBusAddress, MatchRule, MessageType, Properties, message_bus, new_method_call
from jeepney.io.trio import DBusConnection, DBusRouter, open_dbus_connection

from talos.kubed.shutdown.bus import MAX_LINE, authenticate, serve_bus
from talos.kubed.shutdown.inhibitors import MAX_LOCKS, Inhibitors
from talos.kubed.shutdown.logind import LOGIN, LOGIN_PATH, MANAGER, MAX_DELAY
from talos.kubed.shutdown.messages import MAX_MESSAGE
from talos.system.logging import Log

LOGIND = DBusAddress(LOGIN_PATH, LOGIN, MANAGER)
KUBELET = ("shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay")
MATCH = MatchRule(type="signal", interface=MANAGER, member="PrepareForShutdown", path=LOGIN_PATH)


class Bus:
    """A bus with its locks, and what it has logged."""

    def __init__(self, path: Path, inhibitors: Inhibitors) -> None:
        self.path, self.inhibitors = path, inhibitors
        self.lines: list[str] = []

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[DBusConnection]:
        async with await open_dbus_connection(f"unix:path={self.path}", enable_fds=True) as connection:
            yield connection


@asynccontextmanager
async def running(folder: Path) -> AsyncGenerator[Bus]:
    async with trio.open_nursery() as nursery:
        bus = Bus(folder / "bus", Inhibitors(nursery))
        serve = partial(serve_bus, bus.path, bus.inhibitors, Log(write=bus.lines.append), owner=os.getuid())
        await nursery.start(serve)
        yield bus
        nursery.cancel_scope.cancel()


async def inhibit(router: DBusRouter, *body: str) -> Any:
    return await router.send_and_get_reply(new_method_call(LOGIND, "Inhibit", "s" * len(body), body))


async def test_a_kubelet_delays_the_shutdown_until_it_has_ended_its_pods(tmp_path: Path) -> None:
    async with running(tmp_path) as bus, bus.connect() as connection, connection.router() as router:
        delay = await router.send_and_get_reply(Properties(LOGIND).get("InhibitDelayMaxUSec"))
        assert delay.body[0] == ("t", MAX_DELAY * 1_000_000)
        (lock,) = (await inhibit(router, *KUBELET)).body
        await router.send_and_get_reply(message_bus.AddMatch(MATCH))
        ended: list[list[str]] = []

        async def end() -> None:
            ended.append(await bus.inhibitors.end(60))

        async with trio.open_nursery() as nursery:
            with router.filter(MATCH) as signals:
                nursery.start_soon(end)
                assert (await signals.receive()).body == (True,)
                assert not ended
                lock.close()
        assert ended == [[]]


async def test_who_does_not_release_its_lock_is_named(tmp_path: Path) -> None:
    async with running(tmp_path) as bus, bus.connect() as connection, connection.router() as router:
        (lock,) = (await inhibit(router, *KUBELET)).body
        assert await bus.inhibitors.end(0.01) == ["kubelet: Kubelet needs time to handle node shutdown"]
        refused = await inhibit(router, *KUBELET)
        assert refused.header.message_type is MessageType.error
        lock.close()


async def test_nothing_is_waited_for_without_a_lock(tmp_path: Path) -> None:
    async with running(tmp_path) as bus:
        assert await bus.inhibitors.end(60) == []


async def test_a_lock_ends_with_its_holder(tmp_path: Path) -> None:
    async with running(tmp_path) as bus:
        async with bus.connect() as connection, connection.router() as router:
            (lock,) = (await inhibit(router, *KUBELET)).body
        lock.close()
        assert await bus.inhibitors.end(60) == []


async def test_who_follows_too_late_hears_of_the_shutdown_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as bus, bus.connect() as connection, connection.router() as router:
        await bus.inhibitors.end(0)
        with router.filter(MATCH) as signals:
            await router.send_and_get_reply(message_bus.AddMatch(MATCH))
            assert (await signals.receive()).body == (True,)


async def test_locks_are_bounded_and_of_one_kind(tmp_path: Path) -> None:
    async with running(tmp_path) as bus, bus.connect() as connection, connection.router() as router:
        for body in (("sleep", *KUBELET[1:]), (*KUBELET[:3], "block"), KUBELET[:3]):
            reply = await inhibit(router, *body)
            assert reply.header.message_type is MessageType.error, body
        locks = [(await inhibit(router, *KUBELET)).body[0] for _ in range(MAX_LOCKS)]
        reply = await inhibit(router, *KUBELET)
        assert reply.body == ("there are too many locks",)
        for lock in locks:
            lock.close()


@pytest.mark.parametrize(
    ("address", "member", "signature", "body"),
    [
        (DBusAddress("/", "org.freedesktop.systemd1", "a.b"), "KillUnit", "s", ("systemd-logind.service",)),
        (LOGIND, "Reboot", "b", (False,)),
        (LOGIND.with_interface("org.freedesktop.DBus.Properties"), "Get", "ss", ("a.b", "c")),
        (LOGIND.with_interface("org.freedesktop.DBus.Properties"), "Get", "s", ("a.b",)),
    ],
)
async def test_all_else_is_refused(
    tmp_path: Path, address: DBusAddress, member: str, signature: str, body: tuple[object, ...]
) -> None:
    async with running(tmp_path) as bus, bus.connect() as connection, connection.router() as router:
        reply = await router.send_and_get_reply(new_method_call(address, member, signature, body))
        assert reply.header.message_type is MessageType.error
        assert await router.send_and_get_reply(Properties(LOGIND).get("InhibitDelayMaxUSec"))


EMPTY_STRUCTS = b"l\1\0\1\0\0\0\0\1\0\0\0\x18\0\0\0" + b"\1\3a()\0\0\0" + b"\x10\0\0\0" + b"\0" * 12
"""A header with a field that is an array of structs with nothing in them."""


@pytest.mark.parametrize(
    "data",
    [
        b"x" * 16,
        b"l\1\0\1" + (MAX_MESSAGE).to_bytes(4, "little") + b"\1\0\0\0\0\0\0\0",
        b"l\1\0\1\0\0\0\0\1\0\0\0\xff\xff\xff\xff",
        b"l\1\0\1\0\0\0\0\1\0\0\0\x08\0\0\0" + b"\xff" * 8,
        EMPTY_STRUCTS,
    ],
)
async def test_what_is_no_message_ends_its_connection_alone(tmp_path: Path, data: bytes) -> None:
    async with running(tmp_path) as bus, bus.connect() as other, other.router() as router:
        stream = await trio.open_unix_socket(str(bus.path))
        await stream.send_all(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n" + data)
        received = b""
        while part := await stream.receive_some():
            received += part
        assert received.startswith(b"DATA\r\nOK ")
        assert await router.send_and_get_reply(Properties(LOGIND).get("InhibitDelayMaxUSec"))
        await stream.aclose()
        assert any("a connection to the bus has ended" in line for line in bus.lines)


@pytest.mark.parametrize(
    "data", [b"\0BEGIN\r\n" * 20, b"\0" + b"A" * (MAX_LINE + 1), b"GET / HTTP/1.1\r\n" * 20]
)
async def test_who_does_not_authenticate_itself_is_sent_away(tmp_path: Path, data: bytes) -> None:
    async with running(tmp_path) as bus:
        stream = await trio.open_unix_socket(str(bus.path))
        with suppress(trio.BrokenResourceError):
            await stream.send_all(data)
            while await stream.receive_some():
                pass
        await stream.aclose()


@pytest.mark.parametrize(
    ("command", "rest", "uid", "wanted"),
    [
        (b"AUTH", b"", 0, b"REJECTED EXTERNAL"),
        (b"AUTH", b"EXTERNAL", 0, b"DATA"),
        (b"AUTH", b"EXTERNAL 30", 0, b"OK"),
        (b"AUTH", b"EXTERNAL 31", 0, b"REJECTED EXTERNAL"),
        (b"AUTH", b"ANONYMOUS", 0, b"REJECTED EXTERNAL"),
        (b"DATA", b"", 0, b"OK"),
        (b"DATA", b"30", None, b"REJECTED EXTERNAL"),
    ],
)
def test_the_kernel_says_who_a_client_is(command: bytes, rest: bytes, uid: int | None, wanted: bytes) -> None:
    reply, may_begin = authenticate(command, rest, uid)
    assert reply.startswith(wanted)
    assert may_begin is (wanted == b"OK")
