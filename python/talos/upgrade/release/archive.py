"""A release as an OCI archive: one image whose manifest carries the release's manifest and signature.

Signing changes the image's manifest and the index, nothing else: the archive's blobs keep their order and
the same key gives the same bytes.
"""

import base64
import binascii
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

from talos.system.errors import UserError
from talos.system.files import hash_file
from talos.upgrade.release.manifest import FOLDER, MAX_MANIFEST, ReleaseManifest, format_release

MANIFEST = "dev.talos.release.manifest"
"""Annotation of the image's manifest: the release's manifest, in base64, since its exact bytes are signed."""
SIGNATURE = "dev.talos.release.signature"
REPOSITORY = "ghcr.io/siderolabs/installer"
"""The name that a release has as an image, unless another is given."""
NAME = "io.containerd.image.name"
"""Annotation of the index: that name."""
INDEX = "index.json"
KIND = "application/vnd.oci.image"
_BLOBS = "blobs/sha256/"
_SMALL = 1 << 20
"""Bytes of the largest index or manifest."""
type Document = dict[str, Any]


def read_annotations(annotations: Mapping[str, str], where: str) -> tuple[bytes, str]:
    """The release's manifest and its signature, empty without one; UserError when it is no release."""
    encoded = annotations.get(MANIFEST)
    if encoded is None:
        raise UserError("is no release of this system: its manifest names none", where=where)
    if len(encoded) > 2 * MAX_MANIFEST:
        raise UserError(f"its release manifest has {len(encoded)} characters", where=where)
    try:
        return base64.b64decode(encoded, validate=True), annotations.get(SIGNATURE, "")
    except (binascii.Error, ValueError):
        raise UserError("its release manifest is no base64", where=where) from None


def write_archive(release: ReleaseManifest, files: Mapping[str, Path], reference: str, out: Path) -> None:
    """Write an unsigned release; ``reference`` is its name as an image."""
    config = _encode(
        {
            "architecture": release.architecture,
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": []},
        }
    )
    with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as tar:
        layer_file = out.with_suffix(".layer")
        try:
            _write_layer(release, files, layer_file)
            digest = hash_file(layer_file)
            layer = {
                "mediaType": f"{KIND}.layer.v1.tar",
                "digest": f"sha256:{digest}",
                "size": layer_file.stat().st_size,
            }
            document = json.loads(config)
            document["rootfs"]["diff_ids"] = [layer["digest"]]
            config = _encode(document)
            manifest = _encode(
                {
                    "schemaVersion": 2,
                    "mediaType": f"{KIND}.manifest.v1+json",
                    "config": _describe(config, "config.v1+json"),
                    "layers": [layer],
                    "annotations": {MANIFEST: base64.b64encode(format_release(release)).decode()},
                }
            )
            _add(tar, "oci-layout", _encode({"imageLayoutVersion": "1.0.0"}))
            _add(tar, INDEX, _make_index(manifest, release.architecture, reference))
            _add_blob(tar, config)
            _add_blob(tar, manifest)
            with layer_file.open("rb") as file:
                _add_member(tar, _BLOBS + digest, file)
        finally:
            layer_file.unlink(missing_ok=True)


def read_archive(path: Path) -> tuple[Document, Document]:
    """The index and the image's manifest of an archive; UserError."""
    with _open(path) as tar:
        index = _read_json(tar, INDEX, path)
        try:
            digest = str(index["manifests"][0]["digest"])
        except (KeyError, IndexError, TypeError):
            raise UserError(f"its {INDEX} names no image", where=str(path)) from None
        return index, _read_json(tar, _BLOBS + digest.removeprefix("sha256:"), path)


def read_name(index: Document) -> str:
    """The name that an archive's image has; UserError without one."""
    try:
        return str(index["manifests"][0]["annotations"][NAME])
    except (KeyError, IndexError, TypeError):
        raise UserError("its image has no name", where=INDEX) from None


def read_small_file(path: Path, manifest: Document, name: str) -> bytes:
    """A file of a release's layer; UserError when it is not there."""
    try:
        with _open(path) as tar:
            layer = tar.extractfile(_BLOBS + str(manifest["layers"][0]["digest"]).removeprefix("sha256:"))
            with tarfile.open(fileobj=layer, mode="r:") as files:
                content = files.extractfile(f"{FOLDER}/{name}")
                if content is not None:
                    return content.read(_SMALL)
    except (KeyError, IndexError, TypeError, tarfile.TarError):
        pass
    raise UserError(f"its layer has no {name}", where=str(path))


def add_signature(path: Path, out: Path, signature: str) -> None:
    """Write a copy of an archive that carries this signature instead of another or none."""
    index, manifest = read_archive(path)
    old = str(index["manifests"][0]["digest"])
    manifest["annotations"][SIGNATURE] = signature
    data = _encode(manifest)
    index["manifests"][0] |= _describe(data, "manifest.v1+json")
    with _open(path) as tar, tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as new:
        for member in tar:
            if member.name == INDEX:
                _add(new, INDEX, _encode(index))
            elif member.name == _BLOBS + old.removeprefix("sha256:"):
                _add_blob(new, data)
            else:
                content = tar.extractfile(member)
                assert content is not None
                _add_member(new, member.name, content)


def _open(path: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(path, "r:")
    except (tarfile.TarError, OSError) as error:
        raise UserError(f"is no release archive: {error}", where=str(path)) from None


def _read_json(tar: tarfile.TarFile, name: str, path: Path) -> Document:
    try:
        member = tar.getmember(name)
        content = tar.extractfile(member)
        if content is not None and member.size <= _SMALL:
            document: object = json.loads(content.read())
            if isinstance(document, dict):
                return cast("Document", document)
    except (KeyError, ValueError, tarfile.TarError):
        pass
    raise UserError(f"has no valid {name}", where=str(path))


def _write_layer(release: ReleaseManifest, files: Mapping[str, Path], out: Path) -> None:
    with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as tar:
        for folder in reversed(Path(f"{FOLDER}/x").parents[:-1]):
            info = tarfile.TarInfo(str(folder))
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        for name in sorted(release.files):
            with files[name].open("rb") as file:
                _add_member(tar, f"{FOLDER}/{name}", file)


def _make_index(manifest: bytes, architecture: str, reference: str) -> bytes:
    notes = {
        NAME: reference,
        "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
    }
    platform = {"architecture": architecture, "os": "linux"}
    entry = {**_describe(manifest, "manifest.v1+json"), "platform": platform, "annotations": notes}
    return _encode({"schemaVersion": 2, "mediaType": f"{KIND}.index.v1+json", "manifests": [entry]})


def _describe(data: bytes, kind: str) -> Document:
    digest = hashlib.sha256(data).hexdigest()
    return {"mediaType": f"{KIND}.{kind}", "digest": f"sha256:{digest}", "size": len(data)}


def _add_blob(tar: tarfile.TarFile, data: bytes) -> None:
    _add(tar, _BLOBS + hashlib.sha256(data).hexdigest(), data)


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    _add_member(tar, name, io.BytesIO(data))


def _add_member(tar: tarfile.TarFile, name: str, content: IO[bytes]) -> None:
    """Add a file of root's without a time."""
    info = tarfile.TarInfo(name)
    info.mode = 0o644
    info.size = content.seek(0, io.SEEK_END)
    content.seek(0)
    tar.addfile(info, content)


def _encode(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
