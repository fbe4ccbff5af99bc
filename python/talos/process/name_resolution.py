"""Hosts' addresses within a time, for which the C library's resolver takes none.

It can't be ended, so it has a thread of its own, which all share that resolve the same host meanwhile: one
that no name server answers for has one thread, however often it is fetched from.
"""

import socket
from collections.abc import Sequence
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any

type Place = tuple[str, int]
"""Host, or address, and port."""

_lock = Lock()
_running: dict[Place, Future[Sequence[Place]]] = {}


def resolve_host(host: str, port: int, timeout: float) -> Sequence[Place]:
    """The addresses of a host within so many seconds. TimeoutError; OSError, UnicodeError: it has none."""
    place = host, port
    with _lock:
        found = _running.get(place)
        if found is None:
            found = Future[Sequence[Place]]()
            Thread(target=_resolve, args=(place, found), name=f"resolver of {host}", daemon=True).start()
            _running[place] = found
    return found.result(timeout)


def _resolve(place: Place, found: Future[Sequence[Place]]) -> None:
    try:
        rows = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        _forget(place)
        found.set_exception(error)
    else:
        _forget(place)
        found.set_result([_make_place(*row[4]) for row in rows])


def _forget(place: Place) -> None:
    """Who comes from now on gets an answer of its own."""
    with _lock:
        del _running[place]


def _make_place(host: Any, port: Any, _flow: Any = 0, link: Any = 0) -> Place:
    """As a socket connects to it; ``link`` is that of a link-local address."""
    return (f"{host}%{link}" if link else host), port
