"""Archives of ``docker save``: older ones, without an OCI layout."""

import hashlib
import io
import json
import tarfile
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import pytest
from tests.unit.machined.containerd.twin import MemoryContainerd

from talos.machined.containerd import archive, docker_archive
from talos.machined.containerd.archive import import_archive
from talos.machined.containerd.client import Containerd
from talos.system.errors import UserError

LAYERS = (b"first layer" * 1000, b"second layer" * 1000)
CONFIG = json.dumps(
    {"rootfs": {"diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in LAYERS]}}
).encode()
NAME = "docker.io/library/app:1"


def make_archive(manifest: object, *, links: bool = False, config: bytes = CONFIG) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:

        def add(name: str, data: bytes) -> None:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))

        for number, layer in enumerate(LAYERS):
            add(f"{number}/VERSION", b"1.0")
            add(f"{number}/json", b"{}")
            add(f"{number}/layer.tar", layer)
        if links:
            entry = tarfile.TarInfo("2/layer.tar")
            entry.type, entry.linkname = tarfile.SYMTYPE, "../1/layer.tar"
            tar.addfile(entry)
        add("c.json", config)
        add("manifest.json", json.dumps(manifest).encode())
        add("repositories", b"{}")
    return out.getvalue()


def make_manifest(**changes: object) -> list[dict[str, Any]]:
    image = {"Config": "c.json", "RepoTags": ["app:1"], "Layers": ["0/layer.tar", "1/layer.tar"]}
    return [{**image, **changes}]


async def load(data: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[MemoryContainerd, tuple[str, ...]]:
    def check_room(size: int, root: str, where: str) -> None:
        del size, root, where

    monkeypatch.setattr(archive, "check_room", check_room)
    twin = MemoryContainerd()

    async def chunks() -> AsyncGenerator[bytes]:
        for place in range(0, len(data), 1000):
            yield data[place : place + 1000]

    try:
        async with aclosing(chunks()) as parts:
            return twin, await import_archive(Containerd(cast("Any", twin), "system"), parts, root="/")
    finally:
        assert not twin.pending


@pytest.mark.parametrize("links", [False, True])
async def test_layers_by_their_names_become_an_image(monkeypatch: pytest.MonkeyPatch, *, links: bool) -> None:
    layers = ["0/layer.tar", "2/layer.tar" if links else "1/layer.tar"]
    manifest = make_manifest(Layers=layers, RepoTags=["app:1", "app:2"])
    twin, names = await load(make_archive(manifest, links=links), monkeypatch)
    assert names == (NAME, "docker.io/library/app:2")
    assert twin.images.keys() == set(names)
    stored = json.loads(twin.content[twin.images[NAME].digest])
    assert [twin.content[layer["digest"]] for layer in stored["layers"]] == list(LAYERS)
    assert twin.content[stored["config"]["digest"]] == CONFIG
    assert len(twin.snapshots) == len(LAYERS)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (make_manifest(Config="d.json"), "the config d.json is missing"),
        (make_manifest(Layers=["9/layer.tar"]), "the layer 9/layer.tar is missing"),
        (make_manifest(RepoTags=None), "an image in it has no name"),
        (make_manifest(Config=7), "another form"),
        ([], "it has 0 images"),
        ({}, "it has 0 images"),
    ],
)
async def test_what_is_not_whole_is_refused(
    monkeypatch: pytest.MonkeyPatch, manifest: object, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        await load(make_archive(manifest), monkeypatch)


async def test_an_archive_that_is_cut_off_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_archive(make_manifest())
    with pytest.raises(UserError, match="ends in the middle"):
        await load(data[:4000], monkeypatch)


async def test_small_files_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_archive, "MAX_MEMORY", 10)
    with pytest.raises(UserError, match="small files"):
        await load(make_archive(make_manifest()), monkeypatch)
