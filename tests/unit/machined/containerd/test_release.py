"""Releases among containerd's images: what is accepted, and why anything else is refused."""

import json
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.machined.containerd import release as image
from talos.machined.containerd.release import BLOBS, load_release
from talos.system.errors import UserError
from talos.upgrade.release.archive import SIGNATURE
from talos.upgrade.release.layer import Release
from talos.upgrade.release.main import main
from talos.upgrade.release.signature import format_public

NAME = "ghcr.io/siderolabs/installer:v1.15.1"


class Store:
    """containerd's content, as files; an image of it by name."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.keys = folder / "root", folder / "keys"
        self.blobs = self.folder / BLOBS / "sha256"
        self.blobs.mkdir(parents=True)
        self.images: dict[str, Descriptor] = {}
        self._work = folder
        monkeypatch.setattr(image, "read_content", self._read)
        assert main(["keygen", str(self.keys / "test.key")]) == 0

    def add(
        self, *, signed: bool = True, key: str = "test.key", version: str = "v1.15.1", content: bytes = b""
    ) -> dict[str, Any]:
        """Import a release; its image's manifest."""
        files: list[str] = []
        for name in ("vmlinuz", "initramfs", "cmdline"):
            (self._work / name).write_bytes((content or name.encode()) * 1000)
            files.append(str(self._work / name))
        plain, archive = self._work / "plain.tar", self._work / "signed.tar"
        assert main(["make", "--version", version, "--out", str(plain), *files]) == 0
        if signed:
            assert main(["sign", "--key", str(self.keys / key), "--out", str(archive), str(plain)]) == 0
        with tarfile.open(archive if signed else plain) as tar:
            tar.extractall(self._work / "image", filter="data")
        for blob in (self._work / "image/blobs/sha256").iterdir():
            blob.rename(self.blobs / blob.name)
        index = json.loads((self._work / "image/index.json").read_bytes())
        return self.name(self._load(index["manifests"][0]["digest"]))

    def name(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Let the image be the one of this manifest."""
        data = json.dumps(manifest).encode()
        (self.blobs / "manifest").write_bytes(data)
        kind = "application/vnd.oci.image.manifest.v1+json"
        self.images[NAME] = Descriptor(digest="sha256:manifest", size=len(data), media_type=kind)
        return manifest

    def layer(self, manifest: dict[str, Any]) -> Path:
        return self.blobs / manifest["layers"][0]["digest"].partition(":")[2]

    def _load(self, digest: str) -> dict[str, Any]:
        return json.loads((self.blobs / digest.partition(":")[2]).read_bytes())

    async def _read(self, containerd: object, descriptor: Descriptor, where: str) -> bytes:
        del containerd, where
        await trio.lowlevel.checkpoint()
        return (self.blobs / descriptor.digest.partition(":")[2]).read_bytes()

    async def find(self, method: str, request: Any, reply: object) -> Any:
        del method, reply
        await trio.lowlevel.checkpoint()
        target = self.images.get(request.name)
        return target and SimpleNamespace(image=SimpleNamespace(target=target))

    async def load(self, name: str = NAME) -> Release:
        return await load_release(cast("Any", self), name, root=str(self.folder), keys=self.keys)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    return Store(tmp_path, monkeypatch)


async def test_a_signed_release_is_accepted(store: Store) -> None:
    store.add()
    release = await store.load()
    assert (release.name, release.manifest.version) == (NAME, "v1.15.1")
    assert b"".join(release.layer.read("vmlinuz")) == b"vmlinuz" * 1000


async def test_an_image_that_is_not_there_is_named(store: Store) -> None:
    with pytest.raises(UserError, match=r"image docker\.io/library/none:latest: is not there"):
        await store.load("none")


async def test_an_ordinary_image_is_no_release(store: Store) -> None:
    store.name(store.add() | {"annotations": {}})
    with pytest.raises(UserError, match="is no release of this system"):
        await store.load()


async def test_unsigned_foreign_and_altered_releases_are_refused(store: Store) -> None:
    store.add(signed=False)
    with pytest.raises(UserError, match="is not signed"):
        await store.load()
    manifest = store.add()
    foreign = format_public(Ed25519PrivateKey.generate().public_key())
    (store.keys / "test.pub").write_bytes(foreign)
    with pytest.raises(UserError, match="is of none of the 1 keys"):
        await store.load()
    (store.keys / "test.pub").unlink()
    with pytest.raises(UserError, match="trusts no key"):
        await store.load()
    del manifest


async def test_a_release_with_one_signature_of_two_is_refused(store: Store) -> None:
    assert main(["keygen", str(store.keys / "second.key")]) == 0
    (store.keys / "signatures").write_text("2\n")
    store.add()
    with pytest.raises(UserError, match="1 of the 2 keys that this system trusts have signed the release"):
        await store.load()


async def test_a_signature_of_an_older_release_is_refused(store: Store) -> None:
    older, newer = store.add(version="v1.15.0"), store.add()
    newer["annotations"][SIGNATURE] = older["annotations"][SIGNATURE]
    store.name(newer)
    with pytest.raises(UserError, match="is of none of the 1 keys"):
        await store.load()


async def test_a_release_under_the_tag_of_another_is_refused(store: Store) -> None:
    """Else a mirror would have an older one installed, and its signature would be right."""
    store.add(version="v1.15.0")
    with pytest.raises(UserError, match=r"is the release v1\.15\.0, not v1\.15\.1 which is its tag"):
        await store.load()


async def test_the_signed_manifest_of_an_older_release_is_refused_over_other_files(store: Store) -> None:
    older = store.add(version="v1.15.0")
    newer = store.add(content=b"altered")
    newer["annotations"] = older["annotations"]
    store.name(newer)
    with pytest.raises(UserError, match="initramfs has 7000 bytes, in the manifest it has 9000"):
        await store.load()


async def test_the_files_of_another_release_are_refused(store: Store) -> None:
    manifest = store.add()
    layer = store.layer(manifest)
    data = bytearray(layer.read_bytes())
    data[len(data) // 2] ^= 1
    layer.write_bytes(data)
    with pytest.raises(UserError, match="has the digest"):
        await store.load()


@pytest.mark.parametrize("kind", ["tar+zstd", "tar+gzip"])
async def test_layers_that_grow_are_not_read(kind: str, store: Store) -> None:
    manifest = store.add()
    manifest["layers"][0]["mediaType"] = f"application/vnd.oci.image.layer.v1.{kind}"
    store.name(manifest)
    with pytest.raises(UserError, match="one layer, which is not compressed"):
        await store.load()
    manifest["layers"] *= 2
    store.name(manifest)
    with pytest.raises(UserError, match="one layer"):
        await store.load()
