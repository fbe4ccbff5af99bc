"""``talosctl image cache-create``: the same inputs give the same bytes, and a pull that broke off goes on."""

import hashlib
import io
import json
import tarfile
from collections.abc import Generator
from pathlib import Path
from typing import Any, ClassVar, override

import pytest
from tests.harness.registry import (
    INDEX,
    MANIFEST,
    Handler,
    Registry,
    Store,
    encode,
    make_layer,
    running_registry,
)

from talos.images.cache.catalog import FlatCatalog
from talos.provision.mirror import archive_cache
from talos.talosctl.cli.exit import Exit
from talos.talosctl.main import run

APP = "team/app:1"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No credentials of the one who runs the tests, and no proxies."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def store() -> Store:
    store = Store()
    image = store.add_image(APP, {"a": b"1" * 300_000}, {"b": b"2"})
    signature = json.loads(store.blobs[store.add_image("team/app:unused", {"signature": b"s"})["digest"]])
    name = image["digest"].replace(":", "-") + ".sig"
    store.tags["team/app", name] = signature["manifests"][0]["digest"]
    return store


@pytest.fixture
def registry(store: Store) -> Generator[Registry]:
    with running_registry(store) as running:
        yield running


def create(registry: Registry, path: Path, *arguments: str, images: str = APP) -> int:
    named = ",".join(f"127.0.0.1:{registry.port}/{image}" for image in images.split(","))
    argv = ["image", "cache-create", "--images", named, "--image-cache-path", str(path)]
    return run([*argv, *arguments])


def read_tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_flat_layout_has_all_parts_and_the_signature(
    registry: Registry, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert create(registry, tmp_path / "cache", "--layout=flat") == 0
    host = f"127.0.0.1:{registry.port}"
    shown = capsys.readouterr().err
    assert f"1 of 1: {host}/{APP}: " in shown
    assert shown.endswith(f"Created {tmp_path}/cache\n")
    catalog = FlatCatalog([tmp_path / "cache"])
    for tag in ("1", f"{store.tags['team/app', '1'].replace(':', '-')}.sig"):
        top = catalog.find_manifest(host, "team/app", tag)
        assert top is not None
        assert top.digest == store.tags["team/app", tag]
    index = json.loads(store.blobs[store.tags["team/app", "1"]])
    inner = catalog.find_manifest(host, "team/app", index["manifests"][0]["digest"])
    assert inner is not None
    document = json.loads(inner.path.read_bytes())
    for part in (document["config"], *document["layers"]):
        blob = catalog.find_blob(part["digest"])
        assert blob is not None
        assert blob.path.read_bytes() == store.blobs[part["digest"]]
    assert not list(tmp_path.glob("*.partial"))


def test_the_oci_layout_is_the_same_each_time(registry: Registry, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert create(registry, tmp_path / name, "--cosign-signatures=false") == 0
    first = read_tree(tmp_path / "one")
    assert first == read_tree(tmp_path / "two")
    assert json.loads(first["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    entry = json.loads(first["index.json"])["manifests"][0]
    assert entry["platform"] == {"architecture": "amd64", "os": "linux"}

    def read(descriptor: dict[str, Any]) -> bytes:
        data = first[f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}"]
        assert (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data)) == (
            descriptor["digest"],
            descriptor["size"],
        )
        return data

    manifest = json.loads(read(entry))
    (layer,) = manifest["layers"]
    assert json.loads(read(manifest["config"]))["rootfs"]["diff_ids"] == [layer["digest"]]
    assert create(registry, tmp_path / "flat", "--layout=flat", "--cosign-signatures=false") == 0
    with tarfile.open(fileobj=io.BytesIO(read(layer))) as archive:
        members = archive.getmembers()
        files = {one.name: file.read() for one in members if (file := archive.extractfile(one))}
    assert files == read_tree(tmp_path / "flat")
    assert {(one.mtime, one.uid, one.uname) for one in members} == {(0, 0, "")}


class Breaking(Handler):
    """Serves one blob of a layer, and then no other."""

    layers: ClassVar[int] = 0

    @override
    def send_content(self, kind: str, digest: str, data: bytes) -> None:
        if kind == "blobs" and len(data) > 100 and b"diff_ids" not in data:
            self.answer(403, b"", "text/plain")
        else:
            super().send_content(kind, digest, data)


def test_a_pull_that_broke_off_goes_on(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cache"
    with running_registry(store) as whole:
        with running_registry(store, Breaking) as broken:
            broken_again = Registry(store, broken.port, broken.requests)
            assert create(broken_again, path, "--layout=flat", "--cosign-signatures=false") == 1
        assert "it replied 403" in capsys.readouterr().err
        assert not path.exists()
        had = {name for name in read_tree(tmp_path / "cache.partial/flat") if name.startswith("blob/")}
        assert create(whole, path, "--layout=flat", "--cosign-signatures=false") == 0
        fetched = {request.rpartition("/")[2] for request in whole.requests if "/blobs/" in request}
        assert had
        assert not {name.removeprefix("blob/").replace("-", ":") for name in had} & fetched
        # Nothing stays of the registry that broke off.
        assert [folder.name for folder in (path / "manifests").iterdir()] == [f"127.0.0.1_{whole.port}_"]


def test_layers_are_kept_for_the_next_cache(registry: Registry, tmp_path: Path) -> None:
    kept = f"--image-layer-cache-path={tmp_path}/layers"
    assert create(registry, tmp_path / "one", kept, "--layout=flat") == 0
    registry.requests.clear()
    assert create(registry, tmp_path / "two", kept, "--layout=flat") == 0
    assert not [request for request in registry.requests if "/blobs/" in request]
    assert read_tree(tmp_path / "one") == read_tree(tmp_path / "two")
    damaged = next((tmp_path / "layers").iterdir())
    size = damaged.stat().st_size
    damaged.unlink()
    damaged.write_bytes(bytes(size))
    assert create(registry, tmp_path / "three", kept, "--layout=flat") == 0
    assert read_tree(tmp_path / "one") == read_tree(tmp_path / "three")


def test_platforms(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries: list[dict[str, Any]] = []
    for number, (os, architecture, variant) in enumerate(
        [("linux", "amd64", ""), ("linux", "arm64", "v8"), ("unknown", "unknown", "")]
    ):
        index = store.add_image(f"part:{number}", {"file": architecture.encode()})
        (inner,) = json.loads(store.blobs[index["digest"]])["manifests"]
        platform = {"os": os, "architecture": architecture} | ({"variant": variant} if variant else {})
        entries.append({**inner, "mediaType": MANIFEST, "platform": platform})
    index = store.add(encode({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}), INDEX)
    store.tags["many", "1"] = index["digest"]

    def count(path: Path) -> int:
        return len(list((path / "manifests").rglob("digest/*")))

    with running_registry(store) as registry:
        for name, platform, manifests in (
            ("one", "linux/amd64", 2),
            ("two", "linux/amd64,linux/arm64", 3),
            ("all", "all", 3),
        ):
            flags = ("--layout=flat", f"--platform={platform}")
            assert create(registry, tmp_path / name, *flags, images="many:1") == 0
            assert count(tmp_path / name) == manifests
        capsys.readouterr()
        assert create(registry, tmp_path / "none", "--platform=linux/riscv64", images="many:1") == 1
        wanted = "there is no image for linux/riscv64 (it has linux/amd64, linux/arm64/v8)"
        assert wanted in capsys.readouterr().err


def test_a_path_that_exists_is_replaced_by_force_only(
    registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cache"
    path.mkdir()
    (path / "old").touch()
    assert create(registry, path) == 1
    assert f"image cache path {path} already exists, use --force" in capsys.readouterr().err
    assert create(registry, path, "--force") == 0
    assert not (path / "old").exists()


def test_images_of_standard_input(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = f"# two of the same\n127.0.0.1:{registry.port}/{APP}\n\n127.0.0.1:{registry.port}/{APP}\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    argv = ["image", "cache-create", "--images", "-", "--image-cache-path", str(tmp_path / "cache")]
    assert run([*argv, "--layout=flat"]) == 0
    assert len([request for request in registry.requests if request.endswith("/manifests/1")]) == 1


class Private(Handler):
    """Serves one user."""

    @override
    def may_pass(self) -> bool:
        if self.headers.get("Authorization") == "Basic dXNlcjpwdw==":
            return True
        self.answer(401, b"", "text/plain", {"WWW-Authenticate": "Basic"})
        return False


def test_credentials_of_docker_login(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_registry(store, Private) as registry:
        assert create(registry, tmp_path / "cache") == 1
        assert "requires a password" in capsys.readouterr().err
        settings = tmp_path / "docker/config.json"
        settings.parent.mkdir()
        settings.write_text("{")
        assert create(registry, tmp_path / "cache") == 1
        assert "is no JSON (docker login writes it)" in capsys.readouterr().err
        auth = {f"127.0.0.1:{registry.port}": {"auth": "dXNlcjpwdw=="}, "other": {}}
        settings.write_text(json.dumps({"auths": auth}))
        assert create(registry, tmp_path / "cache") == 0


def test_a_cache_of_archives(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = json.loads(store.blobs[store.tags["team/app", "1"]])
    (manifest,) = index["manifests"]
    name = "registry.example/team/app:1"
    entry = {**manifest, "annotations": {"io.containerd.image.name": name}}
    files = {f"blobs/{digest.replace(':', '/')}": data for digest, data in store.blobs.items()}
    archives = tmp_path / "archives"
    archives.mkdir()
    (archives / "app.tar").write_bytes(make_layer({**files, "index.json": encode({"manifests": [entry]})}))
    assert archive_cache.main([str(archives), str(tmp_path / "cache")]) == 0
    assert capsys.readouterr().out == f"{name}\n"
    found = FlatCatalog([tmp_path / "cache"]).find_manifest("registry.example", "team/app", "1")
    assert found is not None
    assert found.digest == manifest["digest"]
    assert archive_cache.main([str(tmp_path / "cache"), str(tmp_path / "none")]) == 1
    assert "no OCI archive" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["--images", "", "--image-cache-path", "x"], Exit.USAGE, "--images: names no image"),
        (
            ["--images", "a", "--image-cache-path", "x", "--layout", "tar"],
            Exit.USAGE,
            'no layout "tar" (use oci or flat)',
        ),
        (["--images", "A:b", "--image-cache-path", "x"], Exit.FAILED, "is no repository"),
        (
            ["--images", "a", "--image-cache-path", "x", "--platform", "amd64"],
            Exit.USAGE,
            '"amd64" is no platform',
        ),
    ],
)
def test_mistakes(arguments: list[str], code: Exit, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["image", "cache-create", *arguments]) == code
    assert error in capsys.readouterr().err
