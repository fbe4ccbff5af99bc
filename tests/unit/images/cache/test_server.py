"""A cache is served as a registry does it, read-only, and no request reaches anything else."""

import gzip
import http.client
import json
import os
import socket
from collections.abc import Generator
from http import HTTPStatus
from pathlib import Path

import pytest
from tests.harness.limits import REAL_TIMEOUT
from tests.harness.registry import INDEX, MANIFEST, Store, digest_of, encode
from tests.harness.serving import serving

from talos.images.cache.catalog import FlatCatalog
from talos.images.cache.layout import name_blob, name_manifest
from talos.images.cache.server import RegistryServer
from talos.system.net.http_server import MAX_HEAD

APP = "team/app"
LAYER = gzip.compress(b"content" * 1000, mtime=0)


def write_cache(root: Path, registry: str, store: Store) -> None:
    """A store's content in the flat layout."""
    for (repository, tag), digest in store.tags.items():
        for name, data in ((tag, store.blobs[digest]), *store.blobs.items()):
            path = root / name_manifest(registry, repository, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    for digest, data in store.blobs.items():
        path = root / name_blob(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@pytest.fixture
def store() -> Store:
    store = Store()
    store.add_image(f"{APP}:1", {"file": b"x" * 1000})
    store.add(LAYER, "")
    return store


@pytest.fixture
def roots(tmp_path: Path, store: Store) -> list[Path]:
    """An empty root, and one that has the store for two registries."""
    for registry in ("registry.example", "registry.example:5000"):
        write_cache(tmp_path / "second", registry, store)
    return [tmp_path / "first", tmp_path / "second"]


@pytest.fixture
def server(roots: list[Path]) -> Generator[RegistryServer]:
    with serving(RegistryServer(("127.0.0.1", 0), FlatCatalog(roots))) as running:
        yield running


def fetch(
    server: RegistryServer, path: str, method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=REAL_TIMEOUT)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("query", ["", "?ns=registry.example", "?ns=registry.example:5000"])
def test_an_image_is_pulled_as_a_runtime_does(server: RegistryServer, store: Store, query: str) -> None:
    head, nothing = fetch(server, f"/v2/{APP}/manifests/1{query}", "HEAD")
    assert (head.status, head.getheader("Content-Type"), nothing) == (HTTPStatus.OK, INDEX, b"")
    digest = head.getheader("Docker-Content-Digest")
    assert digest == store.tags[APP, "1"]
    index = fetch(server, f"/v2/{APP}/manifests/{digest}{query}")[1]
    assert head.getheader("Content-Length") == str(len(index))
    inner = json.loads(index)["manifests"][0]["digest"]
    response, manifest = fetch(server, f"/v2/{APP}/manifests/{inner}{query}")
    assert response.getheader("Content-Type") == MANIFEST
    layer = json.loads(manifest)["layers"][0]["digest"]
    assert fetch(server, f"/v2/{APP}/blobs/{layer}{query}")[1] == store.blobs[layer]


@pytest.mark.parametrize(
    ("requested", "status", "part", "shown"),
    [
        ("bytes=10-", 206, LAYER[10:], f"bytes 10-{len(LAYER) - 1}/{len(LAYER)}"),
        ("bytes=2-3", 206, LAYER[2:4], f"bytes 2-3/{len(LAYER)}"),
        (f"bytes=0-{10**17}", 206, LAYER, f"bytes 0-{len(LAYER) - 1}/{len(LAYER)}"),
        (f"bytes={len(LAYER)}-", 416, b"", f"bytes */{len(LAYER)}"),
        ("bytes=3-2", 416, b"", f"bytes */{len(LAYER)}"),
        ("lines=1-2", 200, LAYER, None),
    ],
)
def test_a_part_of_a_blob(
    server: RegistryServer, requested: str, status: int, part: bytes, shown: str | None
) -> None:
    response, body = fetch(server, f"/v2/{APP}/blobs/{digest_of(LAYER)}", Range=requested)
    assert (response.status, body, response.getheader("Content-Range")) == (status, part, shown)


def test_nothing_refers_to_an_image_of_the_cache(server: RegistryServer, store: Store) -> None:
    digest = store.tags[APP, "1"]
    response, body = fetch(server, f"/v2/{APP}/referrers/{digest}?ns=registry.example")
    assert (response.status, json.loads(body)["manifests"]) == (HTTPStatus.OK, [])
    assert fetch(server, f"/v2/{APP}/referrers/{digest_of(b'')}")[0].status == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize("path", ["/v2", "/v2/", "/healthz"])
def test_it_answers_probes(server: RegistryServer, path: str) -> None:
    assert fetch(server, path)[0].status == HTTPStatus.OK


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 404),
        ("/v2/team/app/tags/list", 404),
        ("/v2/team/app/manifests/2", 404),
        ("/v2/team/app/manifests/1?ns=other.example", 404),
        (f"/v2/team/app/manifests/{digest_of(b'other')}", 404),
        (f"/v2/team/app/blobs/{digest_of(b'other')}", 404),
        ("/v2/team/app/blobs/../../../etc/passwd", 404),
        ("/v2/team/app/blobs/sha256:..", 400),
        ("/v2/team/app/manifests/..", 400),
        ("/v2/../app/manifests/1", 400),
        ("/v2/team//app/manifests/1", 400),
        ("/v2/TEAM/app/manifests/1", 400),
        ("/v2/team/app/manifests/1?ns=../../secret", 400),
        ("/v2/team/app/manifests/1?ns=%2e%2e", 400),
    ],
)
def test_what_is_not_there_or_no_name(server: RegistryServer, path: str, status: int) -> None:
    assert fetch(server, path)[0].status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_written(server: RegistryServer, method: str) -> None:
    assert fetch(server, f"/v2/{APP}/blobs/uploads/", method)[0].status == HTTPStatus.NOT_IMPLEMENTED
    assert fetch(server, f"/v2/{APP}/manifests/1", method)[0].status == HTTPStatus.NOT_IMPLEMENTED


def test_a_disk_that_was_tampered_with(
    server: RegistryServer, roots: list[Path], store: Store, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    digest = digest_of(b"secret")
    place = roots[1] / name_blob(digest)
    place.symlink_to(tmp_path / "secret")
    assert fetch(server, f"/v2/{APP}/blobs/{digest}")[0].status == HTTPStatus.NOT_FOUND
    place.unlink()
    os.mkfifo(place)
    assert fetch(server, f"/v2/{APP}/blobs/{digest}")[0].status == HTTPStatus.NOT_FOUND
    index = store.tags[APP, "1"]
    for content in (b"{}", b"[", b" " * 2_000_000, encode({"layers": []}) + b" "):
        (roots[1] / name_manifest("registry.example", APP, index)).write_bytes(content)
        path = f"/v2/{APP}/manifests/{index}?ns=registry.example"
        assert fetch(server, path)[0].status == HTTPStatus.NOT_FOUND


def test_the_first_root_counts(server: RegistryServer, roots: list[Path]) -> None:
    newer = Store()
    newer.add_image(f"{APP}:1", {"file": b"newer"})
    write_cache(roots[0], "registry.example", newer)
    found = fetch(server, f"/v2/{APP}/manifests/1?ns=registry.example", "HEAD")[0]
    assert found.getheader("Docker-Content-Digest") == newer.tags[APP, "1"]


def test_connections_beyond_the_limit_are_closed(roots: list[Path]) -> None:
    with serving(RegistryServer(("127.0.0.1", 0), FlatCatalog(roots), max_connections=1)) as running:
        held = http.client.HTTPConnection("127.0.0.1", running.server_port, timeout=REAL_TIMEOUT)
        held.request("GET", "/v2/")
        assert held.getresponse().status == HTTPStatus.OK
        with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
            fetch(running, "/v2/")
        held.close()


def test_a_request_has_a_bound(server: RegistryServer) -> None:
    """Also the second of a connection, and one of many lines."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=REAL_TIMEOUT)
    for _ in range(2):
        connection.request("GET", "/v2/", headers={"X-Long": "x" * (MAX_HEAD - 1000)})
        assert connection.getresponse().read() == b"{}"
    connection.request("GET", "/v2/", headers={f"X-{number}": "x" * 1000 for number in range(20)})
    assert connection.getresponse().status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    connection.close()
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=REAL_TIMEOUT) as raw:
        raw.sendall(b"x" * MAX_HEAD)
        assert raw.recv(1) == b""
