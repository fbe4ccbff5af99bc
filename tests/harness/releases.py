"""Releases: the image under test under other versions, in the mirror of containers or machines."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.harness.cluster import image, image_archives
from tests.harness.squashfs import Tree, make_squashfs

from talos.extensions.manifest import LAYERS, Extension, Layer, format_layers
from talos.system.block.verity import make_tree
from talos.system.files import hash_file
from talos.upgrade.release.archive import REPOSITORY, add_signature, write_archive
from talos.upgrade.release.features import list_features
from talos.upgrade.release.initramfs import DIGESTS, EXTENSIONS, RELEASE, read_folder, read_initramfs
from talos.upgrade.release.main import ARCHITECTURE, describe_file
from talos.upgrade.release.manifest import ReleaseManifest, format_release
from talos.upgrade.release.signature import format_public, sign

FIRST = "v1.15.0"
"""What containers run before they are upgraded."""


@dataclass(frozen=True, slots=True)
class Releases:
    """A key, and a folder of images for a cluster's mirror, which releases are added to."""

    folder: Path
    others: Path | None = None
    """The images that the mirror has beside them; those of every cluster, unless it is to have more."""
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    first: str = FIRST
    machine: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """What machines boot: vmlinuz, initramfs, cmdline, and GRUB's parts for those that are installed.

    Containers need none of it.
    """

    @property
    def images(self) -> Path:
        """The mirror's folder, with the images that every cluster needs."""
        folder = self.folder / "images"
        if not folder.exists():
            folder.mkdir(parents=True)
            for archive in (self.others or image_archives()).iterdir():
                (folder / archive.name).symlink_to(archive)
        return folder

    def stamp(self, version: str = FIRST) -> Path:
        """The identity of an image: its version, and the key whose releases it accepts."""
        release = self.folder / "stamp" / version
        (release / "keys").mkdir(parents=True, exist_ok=True)
        (release / "os-release").write_text(f"ID=talos\nVERSION_ID={version}\nBUILD_ID=test\n")
        (release / "keys/test.pub").write_bytes(format_public(self.key.public_key()))
        path = self.folder / f"{version}.stamp"
        path.write_bytes(b"".join(read_folder(release, RELEASE)))
        return path

    def make(
        self,
        version: str,
        *,
        squashfs: Path | None = None,
        architecture: str = ARCHITECTURE,
        key: Ed25519PrivateKey | None = None,
        signed: bool = True,
        is_altered: bool = False,
        tag: str = "",
        features: Sequence[str] | None = None,
        extensions: Mapping[str, Tree] | None = None,
    ) -> str:
        """Offer a release in the mirror; its name as an image. An altered one lies about its files.

        Its tag is its version, unless it is one that moves from release to release.
        """
        work = self.folder / "work" / version
        work.mkdir(parents=True)
        files = self._make_files(work, version, squashfs or image(), extensions or {})
        release = ReleaseManifest(
            version=version,
            commit="test",
            architecture=architecture,
            minimum_version=self.first,
            features=list_features() if features is None else tuple(features),
            files={name: describe_file(name, path) for name, path in files.items()},
        )
        if is_altered:
            _flip_last_byte(files["initramfs"])
        archive, name = work / "release.tar", f"{REPOSITORY}:{tag or version}"
        write_archive(release, files, name, archive)
        if signed:
            signature = sign(format_release(release), key or self.key)
            add_signature(archive, work / "signed.tar", signature)
            archive = work / "signed.tar"
        for path in files.values():
            path.unlink()
        archive.replace(self.images / f"{tag or version}.tar")
        return name

    def _make_files(
        self, folder: Path, version: str, squashfs: Path, extensions: Mapping[str, Tree]
    ) -> Mapping[str, Path]:
        files = {name: folder / name for name in self.machine or ("vmlinuz", "initramfs", "cmdline")}
        if self.machine:
            for name, path in files.items():
                shutil.copyfile(self.machine[name], path)
            with files["initramfs"].open("ab") as out:
                out.write(
                    self.stamp(version).read_bytes()
                )  # of two files of a name the kernel keeps the last
            return files
        files["vmlinuz"].write_bytes(b"no node of a container has a kernel of its own")
        files["cmdline"].write_text("pti=on\n")
        with files["initramfs"].open("wb") as out:
            out.writelines(read_initramfs(files["vmlinuz"], squashfs, make_tree(squashfs)))
            out.writelines(read_folder(make_extensions(folder / EXTENSIONS, extensions), EXTENSIONS))
            out.write(self.stamp(version).read_bytes())
        return files


def make_extensions(folder: Path, extensions: Mapping[str, Tree]) -> Path:
    """Write the layers of extensions as a build composes them; no folder when there are none."""
    layers: list[Layer] = []
    for number, (name, tree) in enumerate(extensions.items()):
        folder.mkdir(exist_ok=True)
        extension = Extension(name=name, version="1.0.0", author="test", description="a layer")
        layers.append(Layer(image=f"{number:03}.{name}.sqsh", extension=extension))
        (folder / layers[-1].image).write_bytes(make_squashfs(tree))
    if layers:
        digests = [f"{hash_file(folder / layer.image)}  {layer.image}\n" for layer in layers]
        (folder / DIGESTS).write_text("".join(digests))
        (folder / LAYERS).write_text(format_layers(layers))
    return folder


def _flip_last_byte(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([byte ^ 1]))
