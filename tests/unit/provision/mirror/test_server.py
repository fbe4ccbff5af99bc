"""The mirror answers as a registry does, and archives that are none are refused by name."""

import hashlib
import http.client
import io
import json
import socket
import ssl
import tarfile
from collections.abc import Generator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from tests.harness.limits import REAL_TIMEOUT
from tests.harness.serving import serving

from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType
from talos.provision.mirror.archives import read_images
from talos.provision.mirror.server import MirrorServer
from talos.system.errors import UserError

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
LAYER = b"layer" * 1000


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def write_archive(path: Path, reference: str, *, broken: bool = False) -> bytes:
    """An archive of one image whose only layer is LAYER; its manifest."""
    manifest = json.dumps({"layers": [{"digest": digest_of(LAYER)}], "of": reference}).encode()
    entry: dict[str, Any] = {
        "mediaType": MANIFEST_TYPE,
        "digest": digest_of(b"another" if broken else manifest),
        "annotations": {"io.containerd.image.name": reference},
    }
    files = {
        "index.json": json.dumps({"manifests": [entry]}).encode(),
        **{f"blobs/sha256/{digest_of(blob)[7:]}": blob for blob in (manifest, LAYER)},
    }
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_archive(tmp_path / "pause.tar", "registry.k8s.io/pause:3.10")
    write_archive(tmp_path / "flannel.tar", "ghcr.io/flannel-io/flannel:v0.28.9")
    return tmp_path


@pytest.fixture
def mirror(folder: Path) -> Generator[MirrorServer]:
    with serving(MirrorServer(("127.0.0.1", 0), read_images(folder))) as running:
        yield running


def fetch(mirror: MirrorServer, path: str, method: str = "GET") -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", mirror.server_port, timeout=REAL_TIMEOUT)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def test_an_image_is_pulled_as_a_runtime_does(mirror: MirrorServer) -> None:
    name = "/v2/pause"
    assert fetch(mirror, "/v2/")[0].status == HTTPStatus.OK
    head, nothing = fetch(mirror, f"{name}/manifests/3.10?ns=registry.k8s.io", "HEAD")
    assert (head.status, head.getheader("Content-Type"), nothing) == (HTTPStatus.OK, MANIFEST_TYPE, b"")
    digest = head.getheader("Docker-Content-Digest")
    response, manifest = fetch(mirror, f"{name}/manifests/{digest}?ns=registry.k8s.io")
    assert (response.getheader("Content-Type"), digest_of(manifest)) == (MANIFEST_TYPE, digest)
    assert head.getheader("Content-Length") == str(len(manifest))
    layer = json.loads(manifest)["layers"][0]["digest"]
    assert fetch(mirror, f"{name}/blobs/{layer}?ns=registry.k8s.io")[1] == LAYER


def test_a_connection_is_used_again(mirror: MirrorServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", mirror.server_port, timeout=REAL_TIMEOUT)
    for _ in range(3):
        connection.request("GET", f"/v2/pause/blobs/{digest_of(LAYER)}")
        assert connection.getresponse().read() == LAYER
    connection.close()


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v2/pause/manifests/4.0?ns=registry.k8s.io", "MANIFEST_UNKNOWN"),
        ("/v2/pause/manifests/3.10?ns=ghcr.io", "MANIFEST_UNKNOWN"),
        (f"/v2/pause/manifests/{digest_of(LAYER)}", "MANIFEST_UNKNOWN"),
        (f"/v2/pause/blobs/sha256:{'0' * 64}", "BLOB_UNKNOWN"),
        ("/v2/pause/blobs/../../../../etc/passwd", "UNSUPPORTED"),
        ("/v2/pause/tags/list", "UNSUPPORTED"),
        ("/", "UNSUPPORTED"),
    ],
)
def test_what_is_not_there_is_refused_with_the_registries_code(
    mirror: MirrorServer, path: str, code: str
) -> None:
    response, body = fetch(mirror, path)
    assert response.status == HTTPStatus.NOT_FOUND
    assert json.loads(body)["errors"][0]["code"] == code


def test_nothing_can_be_pushed(mirror: MirrorServer) -> None:
    assert fetch(mirror, "/v2/pause/blobs/uploads/", "POST")[0].status == HTTPStatus.NOT_IMPLEMENTED


def test_registries_are_those_in_the_names(folder: Path) -> None:
    assert read_images(folder).registries == ["ghcr.io", "registry.k8s.io"]


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no OCI archive .* is there \(build them: make images\)"):
        read_images(tmp_path)
    with pytest.raises(UserError, match=r"nowhere: can't be read"):
        read_images(tmp_path / "nowhere")
    path = tmp_path / "image.tar"
    path.write_bytes(b"not a tar archive" * 100)
    with pytest.raises(UserError, match=r"image\.tar: this is no OCI archive"):
        read_images(tmp_path)
    write_archive(path, "pause")
    with pytest.raises(UserError, match=r"'pause' is not a full image name"):
        read_images(tmp_path)
    write_archive(path, "registry.k8s.io/pause:3.10", broken=True)
    with pytest.raises(UserError, match=r"the manifest of registry\.k8s\.io/pause:3\.10 is missing"):
        read_images(tmp_path)


def test_over_tls_a_silent_client_keeps_no_other_waiting(folder: Path, tmp_path: Path) -> None:
    authority = CertificateAuthority.generate(KeyType.P256, organizations=["cache"])
    pair = authority.issue(common_name="mirror", ips=["127.0.0.1"], usages=Usage.SERVER)
    for name, content in (("crt", pair.crt), ("key", pair.key)):
        (tmp_path / f"tls.{name}").write_bytes(content)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    trust = ssl.create_default_context(cadata=authority.crt.decode())
    with (
        serving(MirrorServer(("127.0.0.1", 0), read_images(folder), tls)) as running,
        socket.create_connection(("127.0.0.1", running.server_port)),
    ):
        client = http.client.HTTPSConnection(
            "127.0.0.1", running.server_port, context=trust, timeout=REAL_TIMEOUT
        )
        client.request("GET", f"/v2/pause/blobs/{digest_of(LAYER)}")
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (HTTPStatus.OK, LAYER)
        client.close()


def test_an_archive_that_is_added_is_served(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = "/v2/siderolabs/installer/manifests/v1.15.0?ns=ghcr.io"
    with serving(MirrorServer(("127.0.0.1", 0), read_images(folder), folder=folder)) as running:
        assert fetch(running, path)[0].status == HTTPStatus.NOT_FOUND
        (folder / "broken.tar").write_bytes(b"half an archive")
        assert fetch(running, "/v2/pause/manifests/3.10")[0].status == HTTPStatus.OK
        (folder / "broken.tar").unlink()
        manifest = write_archive(folder / "installer.new", "ghcr.io/siderolabs/installer:v1.15.0")
        (folder / "installer.new").rename(folder / "installer.tar")
        assert fetch(running, path)[1] == manifest
    assert "the images stay as they were" in capsys.readouterr().err
