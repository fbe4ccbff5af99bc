"""A server that sends its reply byte by byte: the whole takes no longer than the limit."""

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

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
