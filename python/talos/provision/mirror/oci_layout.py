"""A cache of images as an OCI image layout: one image, whose one layer is a tar of the flat layout."""

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from talos.images.manifest import MANIFEST_TYPES, PLAIN_LAYERS

CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
_LAYER_NAME = "layer.new"
_FILE, _FOLDER = 0o644, 0o755


def write_layout(tree: Path, target: Path, platform: str) -> None:
    """Write the layout of a tree; the same files give the same bytes. OSError."""
    if target.exists():
        shutil.rmtree(target)
    blobs = target / "blobs/sha256"
    blobs.mkdir(parents=True)
    with (blobs / _LAYER_NAME).open("wb") as file:
        writer = _Hashing(file)
        _write_tar(tree, writer)
    layer = {"mediaType": PLAIN_LAYERS[0], "digest": f"sha256:{writer.digest}", "size": writer.size}
    (blobs / _LAYER_NAME).rename(blobs / writer.digest)
    os_name, _, architecture = platform.partition("/")
    architecture, _, variant = architecture.partition("/")
    described = {"architecture": architecture, "os": os_name} | ({"variant": variant} if variant else {})
    config = {**described, "config": {}, "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPES[0],
        "config": _add(blobs, config, CONFIG_TYPE),
        "layers": [layer],
    }
    entry = {**_add(blobs, manifest, MANIFEST_TYPES[0]), "platform": described}
    index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry]}
    (target / "index.json").write_bytes(_encode(index))
    (target / "oci-layout").write_bytes(_encode({"imageLayoutVersion": "1.0.0"}))


class _Hashing:
    """A file that is written once, from its beginning on: its digest and size."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        """Write to the file."""
        self._digest.update(data)
        self.size += len(data)
        return self._file.write(data)

    @property
    def digest(self) -> str:
        """Of all that was written, in hexadecimal."""
        return self._digest.hexdigest()


def _write_tar(tree: Path, stream: Any) -> None:
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path in _walk(tree):
            info = tarfile.TarInfo(path.relative_to(tree).as_posix())
            if path.is_dir():
                info.type, info.mode = tarfile.DIRTYPE, _FOLDER
                archive.addfile(info)
                continue
            info.size, info.mode = path.stat().st_size, _FILE
            with path.open("rb") as file:
                archive.addfile(info, file)


def _walk(folder: Path) -> Iterator[Path]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        yield Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path))


def _add(blobs: Path, document: object, kind: str) -> dict[str, Any]:
    data = _encode(document)
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def _encode(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
