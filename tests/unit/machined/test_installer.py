"""A release as what is installed: its parts, and what it must have."""

import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from talos.machined.upgrade.image import Release
from talos.machined.upgrade.installer import make_source
from talos.system.errors import UserError
from talos.upgrade.archive import read_annotations, read_archive
from talos.upgrade.layer import check_layer
from talos.upgrade.manifest import parse_release
from talos.upgrade.release import main

FILES = {
    "vmlinuz": b"kernel" * 5000,
    "initramfs": b"0707" * 9000,
    "cmdline": b"pti=on\n",
    "boot.img": b"B" * 512,
    "core.img": b"C" * 3000,
    "BOOTX64.EFI": b"MZ" * 100,
}


def make_release(folder: Path, files: Mapping[str, bytes]) -> Release:
    """A release of these files, as it is loaded from containerd."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    out = folder / "release.tar"
    assert (
        main(["make", "--version", "v1.15.1", "--out", str(out), *(str(folder / name) for name in files)])
        == 0
    )
    _, document = read_archive(out)
    manifest = parse_release(read_annotations(document["annotations"], "test")[0])
    with tarfile.open(out) as tar:
        tar.extractall(folder / "image", filter="data")
    digest = document["layers"][0]["digest"].partition(":")[2]
    layer = check_layer(folder / "image/blobs/sha256" / digest, manifest)
    return Release(name="installer:v1.15.1", manifest=manifest, layer=layer)


def test_a_release_is_a_source(tmp_path: Path) -> None:
    source = make_source(make_release(tmp_path, FILES))
    assert (source.version, source.has_kernel, source.boot.cmdline) == ("v1.15.1", True, "pti=on")
    assert (source.boot.boot, source.boot.efi) == (FILES["boot.img"], FILES["BOOTX64.EFI"])
    assert b"".join(source.read_kernel()) == FILES["vmlinuz"]
    assert b"".join(source.read_initramfs()) == FILES["initramfs"]
    assert len(source.hash_kernel()) == len(source.hash_initramfs()) == 64


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("core.img", None, "image installer:v1.15.1: it lacks core.img, so it can't be installed"),
        ("boot.img", b"B" * 513, "its boot.img has more than 512 bytes"),
        ("boot.img", b"B" * 511, "it holds no boot loader"),
        ("cmdline", b"a" * 2049, "its cmdline has more than 2048 bytes"),
    ],
)
def test_a_release_that_can_not_be_installed(
    tmp_path: Path, name: str, data: bytes | None, reason: str
) -> None:
    files = {**FILES, name: data} if data else {key: value for key, value in FILES.items() if key != name}
    release = make_release(tmp_path, files)
    with pytest.raises(UserError) as caught:
        make_source(release)
    assert reason in str(caught.value)
