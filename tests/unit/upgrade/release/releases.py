"""Releases of a few bytes, and archives of them."""

import io
import json
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from talos.upgrade.release.main import main
from talos.upgrade.release.manifest import FOLDER, ReleaseManifest, parse_release

CONTENT = {"vmlinuz": b"kernel" * 5000, "initramfs": b"0707" * 9000, "cmdline": b"pti=on\n"}


def make_files(folder: Path, content: dict[str, bytes] | None = None) -> list[Path]:
    """The files of a release."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name, data in (content or CONTENT).items():
        path = folder / name
        path.write_bytes(data)
        paths.append(path)
    return paths


def make_release(folder: Path, *arguments: str, version: str = "v1.15.0") -> Path:
    """An unsigned archive."""
    out = folder / "release.tar"
    files = map(str, make_files(folder / "files"))
    assert main(["make", "--version", version, "--out", str(out), *arguments, *files]) == 0
    return out


def make_document(**changes: Any) -> dict[str, Any]:
    """A manifest as JSON has it; ``changes`` replace fields."""
    document: dict[str, Any] = {
        "version": "v1.15.0",
        "commit": "0123abc",
        "architecture": "amd64",
        "minimum_version": "v1.14.0",
        "features": ["ab-slots"],
        "files": [{"name": name, "size": len(data), "sha256": "0" * 64} for name, data in CONTENT.items()],
    }
    return document | changes


def parse(**changes: Any) -> ReleaseManifest:
    """The manifest with changed fields, parsed."""
    return parse_release(json.dumps(make_document(**changes)).encode())


@dataclass(slots=True, kw_only=True)
class Tar:
    """A layer that is put together by hand."""

    data: io.BytesIO = field(default_factory=io.BytesIO)

    def add(self, name: str, data: bytes, **fields: Any) -> "Tar":
        """Add an entry."""
        info = tarfile.TarInfo(name)
        info.size = len(data)
        for key, value in fields.items():
            setattr(info, key, value)
        self.data.write(info.tobuf(tarfile.USTAR_FORMAT) + data + b"\0" * (-len(data) % 512))
        return self

    def add_all(self) -> "Tar":
        """Add what a release has."""
        for name, data in CONTENT.items():
            self.add(f"{FOLDER}/{name}", data)
        return self

    def write(self, path: Path) -> Path:
        """The finished archive."""
        path.write_bytes(self.data.getvalue() + b"\0" * 1024)
        return path
