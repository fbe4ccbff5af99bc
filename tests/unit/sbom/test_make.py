"""The bill of what is made of packages that are no inputs of an image: kernel, boot loaders, early init."""

import io
import json
import re
import tarfile
from pathlib import Path

import pytest
from make import AR_MAGIC, main
from spdx import CPES

REPOSITORY = Path(__file__).resolve().parents[3]
MODULES = (REPOSITORY / "modules/default.nix").read_text(encoding="utf-8")
PARTS = tuple(re.findall(r'"(([a-z-]+)=([a-z0-9.-]+)=[A-Za-z0-9.-]+)"', MODULES))
LOCK = REPOSITORY / "pkgs/locks/debian.json"
LOADER = "systemd-boot=systemd-boot-efi=LGPL-2.1-or-later"


def write_deb(path: Path, *members: tarfile.TarInfo, text: bytes = b"") -> Path:
    """A Debian package with these files, all of them with this text."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as archive:
        for member in members:
            member.size = len(text) if member.isfile() else 0
            archive.addfile(member, io.BytesIO(text))
    content = data.getvalue()
    head = f"{'data.tar.xz':<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n"
    path.write_bytes(AR_MAGIC + head.encode() + content)
    return path


def make_link(name: str, target: str) -> tarfile.TarInfo:
    """A symbolic link in a package."""
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.SYMTYPE, target
    return link


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the bill of a system of one part is written."""
    (tmp_path / "base").mkdir()
    variables = {"product": "Talos", "version": "v1", "debs": "", "parts": LOADER, "lock": str(LOCK)}
    for name, value in (variables | {"base": str(tmp_path / "base")}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("out", str(tmp_path / "out"))
    return tmp_path / "out"


def test_a_part_has_its_licence_and_what_scanners_find_its_version_by(
    out: Path,
) -> None:
    main()
    part = next(each for each in json.loads(out.read_text())["packages"] if each["name"] == "systemd-boot")
    locked = json.loads(LOCK.read_text())["packages"]["systemd-boot-efi"]
    plain = locked["version"].partition("-")[0]
    assert (part["versionInfo"], part["licenseDeclared"]) == (locked["version"], "LGPL-2.1-or-later")
    assert part["checksums"][0]["checksumValue"] == locked["sha256"]
    purl, cpe = (each["referenceLocator"] for each in part["externalRefs"])
    assert purl.startswith("pkg:deb/debian/systemd-boot-efi@")
    assert cpe == f"cpe:2.3:a:systemd_project:systemd:{plain}:*:*:*:*:*:*:*"


def test_a_parts_text_is_its_packages_copyright_file(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = tarfile.TarInfo("./usr/share/doc/systemd-boot-efi/copyright")
    deb = write_deb(tmp_path / "loader.deb", member, text=b"LGPL, and all of it")
    monkeypatch.setenv("part_debs", str(deb))
    main()
    assert (out / "licenses/systemd-boot.txt").read_text() == "LGPL, and all of it"
    assert "systemd-boot" in (out / "talos.spdx.json").read_text()


def test_a_text_may_be_in_the_package_that_the_part_links_to(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = tarfile.TarInfo("./usr/share/doc/systemd/copyright")
    debs = [
        write_deb(tmp_path / "1.deb", make_link("./usr/share/doc/systemd-boot-efi", "systemd")),
        write_deb(tmp_path / "2.deb", member, text=b"of both"),
    ]
    monkeypatch.setenv("part_debs", " ".join(map(str, debs)))
    main()
    assert (out / "licenses/systemd-boot.txt").read_text() == "of both"


def test_a_part_without_a_text_fails_the_build(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("part_debs", str(write_deb(tmp_path / "other.deb")))
    with pytest.raises(SystemExit, match="no copyright file of systemd-boot-efi"):
        main()
    assert not out.exists()


def test_every_part_of_an_image_is_locked_and_can_be_scanned() -> None:
    locked = json.loads(LOCK.read_text())["packages"]
    assert {name for _, name, _ in PARTS} == {"busybox", "grub", "linux", "musl", "systemd-boot"}
    assert [word for word, name, package in PARTS if package not in locked or name not in CPES] == []
