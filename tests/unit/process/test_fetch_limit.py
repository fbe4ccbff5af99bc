"""Replies that come byte by byte, names that none resolves: the whole takes no longer than the limit."""

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from talos.process.fetch import FetchBounds, FetchError, Request, make_opener, send

INTERVAL = 0.02  # seconds
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"


@contextmanager
def dripping(first: bytes) -> Generator[str]:
    """A server that sends ``first`` at once, then single bytes until its client is gone; its address."""
    listener, stopping = socket.create_server(("127.0.0.1", 0)), threading.Event()
    listener.settimeout(10)

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.recv(4096)
            connection.sendall(first)
            while not stopping.wait(INTERVAL):
                connection.sendall(b"x")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stopping.set()
        thread.join()
        listener.close()


@pytest.mark.parametrize(
    "first", [b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK\r\nX: ", HEAD], ids=["status", "header", "body"]
)
def test_a_reply_is_not_waited_for_beyond_the_limit(first: bytes) -> None:
    bounds = FetchBounds(timeout=0.3, silence=30.0)
    with dripping(first) as server, pytest.raises(FetchError, match="not complete after 0 s"):
        send(Request(url=f"http://{server}/"), bounds=bounds)


def test_nor_is_the_reply_of_a_proxy() -> None:
    bounds = FetchBounds(timeout=0.3, silence=30.0)
    with dripping(b"HTTP/1.1 200 ") as server, pytest.raises(FetchError, match="not complete after 0 s"):
        send(Request(url="https://a.example/", environment={"https_proxy": server}), bounds=bounds)


def test_an_opener_has_one_limit_for_all_its_calls() -> None:
    opener = make_opener(timeout=0.3)
    with dripping(HEAD) as server:
        with opener.open(f"http://{server}/", timeout=30.0) as reply, pytest.raises(TimeoutError):
            reply.read()
        with pytest.raises(OSError, match="not complete after 0 s"):
            opener.open(f"http://{server}/", timeout=30.0)


def test_silence_ends_earlier() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    request = Request(url=f"http://127.0.0.1:{listener.getsockname()[1]}/")
    with listener, pytest.raises(FetchError, match="did not answer in time"):
        send(request, bounds=FetchBounds(timeout=30.0, silence=0.1))


def test_nor_is_a_name_that_no_server_resolves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The resolver can't be ended: all wait for one thread, and a later request has its answer."""
    looked_up, answering, resolve = list[str](), threading.Event(), socket.getaddrinfo

    def getaddrinfo(host: str, *arguments: Any, **options: Any) -> Any:
        if host != "slow.example":
            return resolve(host, *arguments, **options)
        looked_up.append(host)
        answering.wait(10)
        return resolve("127.0.0.1", *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with dripping(HEAD) as server:
        request = Request(url=f"http://slow.example:{server.partition(':')[2]}/")
        for _ in range(3):
            with pytest.raises(FetchError, match="not complete after 0 s"):
                send(request, bounds=FetchBounds(timeout=0.1, silence=30.0))
        assert looked_up == ["slow.example"]
        answering.set()
        with make_opener(timeout=10).open(request.url, timeout=10) as reply:
            assert reply.read(1) == b"x"


def test_each_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = socket.getaddrinfo

    def getaddrinfo(host: str, *arguments: Any, **options: Any) -> Any:
        if host != "many.example":
            return resolve(host, *arguments, **options)
        found = [resolve(address, *arguments, **options) for address in ("127.0.0.2", "127.0.0.1")]
        return [row for rows in found for row in rows]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with dripping(HEAD) as server:
        url = f"http://many.example:{server.partition(':')[2]}/"
        with make_opener(timeout=10).open(url, timeout=10) as reply:
            assert reply.read(1) == b"x"


def test_a_name_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    for _ in range(2):
        with pytest.raises(FetchError, match="name or service not known"):
            send(Request(url="http://none.example/"))
