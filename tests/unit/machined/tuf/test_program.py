"""The program over HTTP, and PID 1's side of it."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, override

import pytest
from tests.harness.serving import serving
from tests.harness.sigstore import Sigstore
from tests.harness.tuf import Repository

from talos.machined.tuf.metadata import Role
from talos.machined.tuf.program import run
from talos.machined.tuf.refresh import MAX_LENGTHS
from talos.machined.tuf.start import FILE, keep_trusted, load_trusted, run_refresh
from talos.machined.tuf.trusted import (
    MAX_TRUSTED,
    PROGRAM,
    TrustedMetadata,
    format_request,
    format_trusted,
    parse_trusted,
)
from talos.system.errors import UserError
from talos.system.process import Finished

TARGET = json.dumps(Sigstore().trusted_root())


@pytest.fixture
def repository() -> Repository:
    return Repository(TARGET.encode(), datetime.now(UTC))


@contextmanager
def served(repository: Repository, missing: int = 404) -> Generator[str]:
    """The repository's files by HTTP; the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = repository.files.get(self.path.removeprefix("/"))
            self.send_response(missing if data is None else 200)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write(data or b"")

        @override
        def log_message(self, format: str, *args: Any) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


@pytest.mark.parametrize("missing", [403, 404])
def test_it_refreshes_what_it_is_given(repository: Repository, missing: int) -> None:
    first = repository.root
    repository.rotate()
    with served(repository, missing) as url:
        output, reason = run(format_request(TrustedMetadata(), {}), url, first)
    trusted = parse_trusted(output, "x")
    assert (reason, trusted.trusted_root, trusted.root) == ("", TARGET, repository.root)


def test_the_environment_s_proxy_counts(repository: Repository) -> None:
    with served(repository) as url:
        given = {"http_proxy": "http://127.0.0.1:1"}
        reason = run(format_request(TrustedMetadata(), given), url, repository.root)[1]
        assert reason.startswith(f"{url}/2.root.json: ")
        given["no_proxy"] = "127.0.0.1"
        assert not run(format_request(TrustedMetadata(), given), url, repository.root)[1]


def test_what_is_too_long_is_not_read(repository: Repository) -> None:
    repository.files["timestamp.json"] += b" " * MAX_LENGTHS[Role.TIMESTAMP]
    with served(repository) as url:
        output, reason = run(format_request(TrustedMetadata(), {}), url, repository.root)
    assert reason == f"{url}/timestamp.json: more than {MAX_LENGTHS[Role.TIMESTAMP]} bytes came"
    assert parse_trusted(output, "x") == TrustedMetadata(root=repository.root)


def test_a_server_that_is_not_there(repository: Repository) -> None:
    with served(repository) as url:
        pass
    before = TrustedMetadata(root=repository.root, trusted_root="old", version=20)
    output, reason = run(format_request(before, {}), url, repository.root)
    assert parse_trusted(output, "x") == before
    assert reason.startswith(f"{url}/2.root.json: ")


@pytest.mark.parametrize("data", [b"", b"{}", b'{"trusted": {}, "environment": {}}'])
def test_an_input_that_is_none(data: bytes) -> None:
    output, reason = run(data, "http://127.0.0.1:1", "")
    assert (output, reason.startswith("stdin: ")) == (b"", True)


async def _refresh(done: Finished) -> tuple[TrustedMetadata, str]:
    async def run_program(argv: Sequence[str], _: bytes) -> Finished:
        assert argv == (PROGRAM,)
        return done

    return await run_refresh(run_program, TrustedMetadata(), {})


async def test_its_result() -> None:
    trusted = TrustedMetadata(root="a", version=3)
    output = format_trusted(trusted)
    assert await _refresh(Finished(code=0, stdout=output)) == (trusted, "")
    assert await _refresh(Finished(code=3, stdout=output, stderr=b"a\x1b\nb")) == (trusted, "a?")


@pytest.mark.parametrize(
    ("done", "text"),
    [
        (Finished(code=-9, stdout=format_trusted(TrustedMetadata())), "failed with signal SIGKILL"),
        (Finished(code=1), "failed with exit code 1"),
        (Finished(code=0), "has no trusted files"),
        (Finished(code=0, stdout=format_trusted(TrustedMetadata())[:-4]), "has no trusted files"),
        (
            Finished(code=0, stdout=format_trusted(TrustedMetadata(root="x" * MAX_TRUSTED))),
            "has no trusted files",
        ),
        (Finished(code=0, stdout=b'{"root": 3}'), "has no trusted files"),
    ],
)
async def test_a_program_that_fails(done: Finished, text: str) -> None:
    with pytest.raises(UserError, match=text):
        await _refresh(done)


def test_what_is_kept(tmp_path: Path) -> None:
    assert load_trusted(tmp_path) == TrustedMetadata()
    keep_trusted(tmp_path, TrustedMetadata(root="a", version=3))
    assert load_trusted(tmp_path) == TrustedMetadata(root="a", version=3)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    (tmp_path / FILE).write_text("{", encoding="ascii")
    with pytest.raises(UserError, match=f"{FILE}: has no trusted files"):
        load_trusted(tmp_path)
