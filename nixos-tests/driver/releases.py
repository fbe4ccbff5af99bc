"""Releases for machines to be upgraded with, in a registry on the test's web server."""

import hashlib
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

from driver.assets import Assets
from driver.disks import pack_fifo, pack_folder
from driver.process import run
from driver.tiny_loader import make_loader
from driver.web import WebServer

REPOSITORY = "ghcr.io/siderolabs/installer"
KEY = "test.key"
FIRST = "v1.15.0-alpha.0"
"""What the machines run before they are upgraded."""
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
NAME_ANNOTATION = "io.containerd.image.name"
"""Of an archive's manifest: the image's whole name."""
EFI_LOADER = "BOOTX64.EFI"
BOOT_LOADER = ("boot.img", "core.img", EFI_LOADER)
ENDLESS_SYSTEM = pack_fifo("rootfs.sqsh")
"""For the end of an initramfs, whose early init then hangs, reading the system image."""


class Releases:
    """Makes releases of one key from the assets kernel, initramfs, cmdline and release-tool."""

    def __init__(self, assets: Assets, web: WebServer, folder: Path) -> None:
        """Make the key."""
        self._assets, self._web, self._folder = assets, web, folder / "releases"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._key = self._folder / KEY
        if not self._key.exists():
            self._run("keygen", str(self._key))

    def _run(self, *arguments: str) -> None:
        run([str(self._assets.path("release-tool") / "bin/release"), *arguments], seconds=120)

    @property
    def registry(self) -> str:
        """Where machines and their pods call the registry."""
        return self._web.url("")

    @property
    def public_key(self) -> str:
        """The key that accepts the releases, as PEM."""
        return self._key.with_suffix(".pub").read_text()

    @property
    def patch(self) -> str:
        """The part of a machine config that has images come from here."""
        mirrors = {
            host: {"endpoints": [self.registry]} for host in ("docker.io", "ghcr.io", "registry.k8s.io")
        }
        return json.dumps({"machine": {"registries": {"mirrors": mirrors}}})

    def initramfs(
        self,
        version: str = FIRST,
        more: bytes = b"",
        extensions: Path | None = None,
        asset: str = "initramfs",
    ) -> Path:
        """The initramfs of a version that accepts this key's releases; ``more`` are further archives.

        ``extensions`` is an archive with those.
        """
        key = self._key.with_suffix(".pub").read_bytes()
        release = f"ID=talos\nVERSION_ID={version}\nBUILD_ID=test\n".encode()
        data = self._assets.path(asset).read_bytes() if asset else b""
        data += extensions.read_bytes() if extensions else b""
        path = self._folder / f"initramfs-{version}"
        path.write_bytes(data + pack_folder("release", {"os-release": release, "keys/test.pub": key}) + more)
        return path

    def make(
        self,
        version: str,
        *,
        signed: bool = True,
        arguments: str = "",
        more: bytes = b"",
        extensions: Path | None = None,
        boot: Path | None = None,
        asset: str = "initramfs",
        altered: bool = False,
        kernel: bytes = b"",
        tag: str = "",
        change: Callable[[Path], Path] = lambda archive: archive,
    ) -> str:
        """Make a release and offer it; its name as an image.

        ``arguments`` are further ones of the kernel, ``more`` further archives of the initramfs,
        which is ``asset``; without a name it holds the release's own files alone.
        ``extensions`` is an archive with those, ``boot`` a folder with the boot loader, for installations.
        ``tag`` is that of its name, if that is not the version.
        ``altered`` changes a byte of the kernel after the release was signed; ``kernel`` is another one.
        ``change`` makes another archive of the one that is not signed yet.
        """
        cmdline = self._folder / "cmdline"
        cmdline.write_text(f"{self._assets.path('cmdline').read_text().strip()} {arguments}")
        archive, signature = self._folder / f"{version}.tar", self._folder / f"{version}.signed.tar"
        files = {
            "vmlinuz": self._assets.path("kernel") / "vmlinuz",
            "initramfs": self.initramfs(version, more, extensions, asset),
            "cmdline": cmdline,
        }
        if kernel:
            files["vmlinuz"] = self._folder / "vmlinuz"
            files["vmlinuz"].write_bytes(kernel)
        if boot:
            files |= {name: boot / name for name in BOOT_LOADER}
        argv = ["make", "--version", version, "--commit", "test", "--minimum-version", FIRST]
        for name, path in files.items():
            argv += ["--named", f"{name}={path}"]
        self._run(*argv, "--out", str(archive))
        archive = change(archive)
        if signed:
            self._run("sign", "--key", str(self._key), "--out", str(signature), str(archive))
        name = f"{REPOSITORY}:{tag or version}"
        self.offer(signature if signed else archive, name, altered=altered)
        return name

    def make_boot_loader(self, name: str, line: str, *, hangs: bool = False) -> Path:
        """A folder with a boot loader for :meth:`make`, which on UEFI writes a line and does no more.

        The rest is that of the asset boot-loader.
        """
        folder = self._folder / name
        folder.mkdir()
        for file in BOOT_LOADER:
            data = make_loader(line, hangs=hangs) if file == EFI_LOADER else None
            (folder / file).write_bytes(data or (self._assets.path("boot-loader") / file).read_bytes())
        return folder

    def offer(self, archive: Path, name: str, *, altered: bool = False) -> None:
        """Offer the image of an archive by its name."""
        repository, _, tag = name.partition("/")[2].rpartition(":")
        base, folder = f"/v2/{repository}", self._folder / name.replace("/", "_")
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        blobs = folder / "blobs/sha256"
        index = json.loads((folder / "index.json").read_text())
        manifest = (blobs / index["manifests"][0]["digest"].partition(":")[2]).read_bytes()
        if altered:
            manifest = self._alter(blobs, manifest)
        for reference in (tag, f"sha256:{hashlib.sha256(manifest).hexdigest()}"):
            self._web.serve(f"{base}/manifests/{reference}", manifest.decode(), MANIFEST)
        for blob in blobs.iterdir():
            self._web.serve_file(f"{base}/blobs/sha256:{blob.name}", blob)

    def offer_archives(self, folder: Path) -> None:
        """Offer the images of a folder of OCI archives by the names in them."""
        for archive in sorted(folder.glob("*.tar")):
            self.offer_archive(archive)

    def offer_archive(self, archive: Path) -> str:
        """Offer the image of an OCI archive by the name in it, which is returned."""
        with tarfile.open(archive) as tar:
            index = tar.extractfile("index.json")
            assert index, f"{archive} is no OCI archive"
            manifests = json.load(index)["manifests"]
        name = manifests[0]["annotations"][NAME_ANNOTATION]
        self.offer(archive, name)
        return name

    def offer_empty(self, tag: str) -> str:
        """Offer an image without layers, of which a machine stores two small files; its name."""
        base = f"/v2/{REPOSITORY.partition('/')[2]}"
        config = '{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[]}}'
        digest = f"sha256:{hashlib.sha256(config.encode()).hexdigest()}"
        descriptor = {"mediaType": CONFIG, "digest": digest, "size": len(config)}
        manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": descriptor, "layers": []})
        self._web.serve(f"{base}/blobs/{digest}", config)
        self._web.serve(f"{base}/manifests/{tag}", manifest, MANIFEST)
        return f"{REPOSITORY}:{tag}"

    def _alter(self, blobs: Path, manifest: bytes) -> bytes:
        """Change the layer, and everything in the image that names it: only the release's manifest stays."""
        document = json.loads(manifest)
        layer, config = document["layers"][0], document["config"]
        data = bytearray((blobs / layer["digest"].partition(":")[2]).read_bytes())
        data[len(data) // 2] ^= 1
        old, new = layer["digest"], _store(blobs, bytes(data))
        text = (blobs / config["digest"].partition(":")[2]).read_text().replace(old, new)
        config |= {"digest": _store(blobs, text.encode()), "size": len(text)}
        return json.dumps(document).replace(old, new).encode()


def _store(blobs: Path, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return f"sha256:{digest}"
