"""Patches that a server has."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from talos.talosctl.client.patches import BOUNDS
from talos.talosctl.main import run

CONFIG = "version: v1alpha1\nmachine:\n  type: worker\n"
PATCH = "machine:\n  certSANs: [a.example]\n"


@contextmanager
def serve(data: bytes) -> Generator[str]:
    """A server's address; its file /patch.yaml has the data."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/patch.yaml" else 404)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return str(path)


@pytest.mark.parametrize("mark", ["", "@"])
def test_a_patch_comes_from_a_server(mark: str, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serve(PATCH.encode()) as address:
        assert run(["machineconfig", "patch", config, "-p", f"{mark}{address}/patch.yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["machine"]["certSANs"] == ["a.example"]


def test_what_is_not_there_or_too_large_is_named(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serve(PATCH.encode() + b"#" * BOUNDS.max_bytes) as address:
        assert run(["machineconfig", "patch", config, "-p", f"{address}/other.yaml"]) == 1
        err = capsys.readouterr().err
        assert f"{address}/other.yaml" in err
        assert "404" in err
        assert run(["machineconfig", "patch", config, "-p", f"{address}/patch.yaml"]) == 1
        assert f"more than {BOUNDS.max_bytes} bytes" in capsys.readouterr().err
