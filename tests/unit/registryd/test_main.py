"""The daemon serves the cache on its port until it is stopped."""

import asyncio
import http.client
import socket
from pathlib import Path

import pytest
import trio
from tests.harness.limits import REAL_TIMEOUT
from tests.harness.registry import Store
from tests.unit.images.cache.test_server import write_cache

from talos.process.run import Daemon, host
from talos.registryd import main
from talos.system.logging import Log


def find_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_it_serves_until_it_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, ready, port, lines = Store(), trio.Event(), find_port(), list[str]()
    store.add_image("app:1", {"file": b"x"})
    write_cache(tmp_path / "second", "registry.example", store)
    monkeypatch.setattr(main, "PORT", port)
    monkeypatch.setattr(main, "ROOTS", (tmp_path / "first", tmp_path / "second"))
    monkeypatch.setattr("talos.process.daemons.RUN", str(tmp_path))
    (tmp_path / "registryd").mkdir()
    monkeypatch.setattr(main, "notify_ready", ready.set)

    def fetch(path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REAL_TIMEOUT)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        finally:
            connection.close()

    async def use(daemon: Daemon) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(main.serve_images, daemon)
            with trio.fail_after(REAL_TIMEOUT):
                await ready.wait()
                for path, status in (
                    ("/healthz", 200),
                    ("/v2/app/manifests/1", 200),
                    ("/v2/app/manifests/2", 404),
                ):
                    assert await trio.to_thread.run_sync(fetch, path) == status
            daemon.stopping.set()

    asyncio.run(host(use, "registryd", Log(write=lines.append)))
    assert any("a request is refused" in line and "MANIFEST_UNKNOWN" in line for line in lines)
    with pytest.raises(ConnectionRefusedError):
        fetch("/healthz")
