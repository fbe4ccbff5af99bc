"""Manifests and configs of images, as registries hand them out: parsed with bounds.

https://github.com/opencontainers/image-spec and the older media types of Docker.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.images.reference import DIGEST
from talos.system.errors import UserError
from talos.system.parsed import as_object
from talos.upgrade.release.archive import MANIFEST as RELEASE

MAX_MANIFEST = 1024 * 1024
"""Bytes of a manifest, an index or a config; one of 500 layers has 100 KiB. Registries accept four times as
many, but parsing holds up the interpreter.
"""
MAX_LAYERS = 512
"""Of an image. overlayfs takes 500."""
MAX_MANIFESTS = 1024
"""In an index."""
OS, ARCHITECTURE = "linux", "amd64"
INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
PLAIN_LAYERS = (
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.docker.image.rootfs.diff.tar",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """An image for one platform: its config, and its layers from the lowest up."""

    config: Descriptor
    layers: tuple[Descriptor, ...]
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_release(self) -> bool:
        """Whether it is a release of this system: it is written to a disk, and never run nor unpacked."""
        return RELEASE in self.annotations

    @property
    def size(self) -> int:
        """Bytes of everything it names."""
        return self.config.size + sum(layer.size for layer in self.layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """The defaults with which an image is run. ``diff_ids`` are digests of the unpacked layers."""

    diff_ids: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    user: str = ""
    directory: str = "/"

    @property
    def chain_ids(self) -> tuple[str, ...]:
        """Names of the snapshots of the layers, each with all below it."""
        found: list[str] = []
        for diff_id in self.diff_ids:
            below = f"{found[-1]} {diff_id}".encode() if found else b""
            found.append(f"sha256:{hashlib.sha256(below).hexdigest()}" if found else diff_id)
        return tuple(found)


def parse_index(data: bytes, where: str) -> Descriptor:
    """The descriptor of this machine's manifest in an index; UserError."""
    manifests = _list(parse_document(data, where), "manifests", where, MAX_MANIFESTS)
    for entry in manifests:
        platform = as_object(as_object(entry).get("platform"))
        if (platform.get("os"), platform.get("architecture")) == (OS, ARCHITECTURE):
            return make_descriptor(entry, where)
    raise UserError(f"there is no image for {OS}/{ARCHITECTURE}", where=where)


def parse_platforms(data: bytes, where: str) -> list[tuple[str, Descriptor]]:
    """The manifests in an index with their platforms, such as ``linux/arm64/v8``; UserError.

    What is for no platform, such as an attestation, is left out.
    """
    found: list[tuple[str, Descriptor]] = []
    for entry in _list(parse_document(data, where), "manifests", where, MAX_MANIFESTS):
        platform = as_object(as_object(entry).get("platform"))
        parts = [platform.get(key) or "" for key in ("os", "architecture", "variant")]
        if all(isinstance(part, str) for part in parts) and "unknown" not in parts and all(parts[:2]):
            found.append(("/".join(filter(None, parts)), make_descriptor(entry, where)))
    return found


def parse_manifest(data: bytes, where: str) -> Manifest:
    """A manifest; UserError."""
    document = parse_document(data, where)
    if document.get("schemaVersion") != 2:
        raise UserError("a manifest of another version than 2", where=where, hint="push the image anew")
    layers = tuple(make_descriptor(entry, where) for entry in _list(document, "layers", where, MAX_LAYERS))
    notes = as_object(document.get("annotations")).items()
    found = Manifest(
        config=make_descriptor(document.get("config"), where),
        layers=layers,
        annotations={key: value for key, value in notes if isinstance(value, str)},
    )
    if found.is_release and [layer.media_type in PLAIN_LAYERS for layer in layers] != [True]:
        raise UserError("a release has one layer, which is not compressed", where=where)
    return found


def parse_config(data: bytes, where: str) -> ImageConfig:
    """An image's config; UserError."""
    document = parse_document(data, where)
    diff_ids = _list(as_object(document.get("rootfs")), "diff_ids", where, MAX_LAYERS)
    config = as_object(document.get("config"))
    pairs = [text.partition("=") for text in _texts(config, "Env", where)]
    for diff_id in diff_ids:
        if not (isinstance(diff_id, str) and DIGEST.fullmatch(diff_id)):
            raise UserError("one of its diff_ids is no digest", where=where)
    return ImageConfig(
        diff_ids=tuple(diff_ids),
        entrypoint=_texts(config, "Entrypoint", where),
        command=_texts(config, "Cmd", where),
        environment={name: value for name, _, value in pairs if name},
        user=str(config.get("User") or ""),
        directory=str(config.get("WorkingDir") or "/"),
    )


def find_form(data: bytes, media_type: str, where: str) -> str:
    """``index`` or ``manifest``: from the media type, or without one from the fields; UserError."""
    if media_type in INDEX_TYPES:
        return "index"
    if media_type in MANIFEST_TYPES:
        return "manifest"
    document = parse_document(data, where)
    if "manifests" in document:
        return "index"
    if "layers" in document:
        return "manifest"
    raise UserError(f"{media_type or 'it'} is neither a manifest nor an index", where=where)


def parse_document(data: bytes, where: str) -> dict[str, Any]:
    """A JSON object; UserError."""
    if len(data) > MAX_MANIFEST:
        raise UserError(f"larger than {MAX_MANIFEST} bytes", where=where)
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        raise UserError("it is no JSON", where=where) from None
    if not isinstance(value, dict):
        raise UserError("it is no JSON object", where=where)
    return cast("dict[str, Any]", value)


def _list(document: Mapping[str, Any], key: str, where: str, limit: int) -> Sequence[Any]:
    value: object = document.get(key)
    if not isinstance(value, list):
        raise UserError(f"it has no list {key!r}", where=where)
    items = cast("list[Any]", value)
    if len(items) > limit:
        raise UserError(f"it has more than {limit} {key}", where=where)
    return items


def _texts(config: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value: object = config.get(key) or []
    items = cast("list[object]", value) if isinstance(value, list) else [None]
    texts = tuple(item for item in items if isinstance(item, str))
    if len(texts) != len(items):
        raise UserError(f"{key} is no list of texts", where=where)
    return texts


def make_descriptor(value: object, where: str) -> Descriptor:
    """A descriptor in a manifest or an index; UserError."""
    entry = as_object(value)
    digest, size, kind = entry.get("digest"), entry.get("size"), entry.get("mediaType", "")
    if (
        isinstance(digest, str)
        and DIGEST.fullmatch(digest)
        and type(size) is int  # true and false are numbers, too
        and 0 <= size < 1 << 62
        and isinstance(kind, str)
        and kind.isascii()
    ):
        return Descriptor(digest=digest, size=size, media_type=kind)
    raise UserError("it has no valid digest and size of one of its parts", where=where)
