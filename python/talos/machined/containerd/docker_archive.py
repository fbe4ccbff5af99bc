"""What ``docker save`` and its relatives write: layers as tars, a config, ``manifest.json`` with the names.

The digests of layers are in no name: they are known once a layer has been stored. Newer versions write
an OCI layout beside it, which is taken then.
"""

import hashlib
import json
import posixpath
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, cast

from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.images.manifest import MAX_LAYERS, MAX_MANIFEST
from talos.images.reference import parse_reference
from talos.machined.containerd.client import Containerd
from talos.machined.containerd.ingest import store_content
from talos.system.errors import UserError

WHERE = "image archive"
MANIFEST = "manifest.json"
ENDS_EARLY = "it ends in the middle of an entry"
MAX_DOCUMENTS = 1024
"""Small files of an archive, of which some are the images' configs, with 1 MiB at most each."""
MAX_MEMORY = 16 << 20
"""Bytes of these together."""
_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG_TYPE = "application/vnd.docker.container.image.v1+json"
_LAYER_TYPE = "application/vnd.docker.image.rootfs.diff.tar"
_GZIP = b"\x1f\x8b"


@dataclass(slots=True)
class DockerArchive:
    """What an archive has had so far, by the names of its entries."""

    documents: dict[str, bytes] = field(default_factory=dict[str, bytes])
    layers: dict[str, Descriptor] = field(default_factory=dict[str, Descriptor])
    links: dict[str, str] = field(default_factory=dict[str, str])
    _held: int = 0

    def keep(self, name: str, data: bytes) -> None:
        """Keep a small file; UserError when there are too many."""
        self._held += len(data)
        if len(self.documents) >= MAX_DOCUMENTS or self._held > MAX_MEMORY:
            raise UserError(f"it has more than {MAX_MEMORY >> 20} MiB of small files", where=WHERE)
        self.documents[name] = data

    def link(self, name: str, target: str) -> None:
        """Note that a layer is another image's, too."""
        self.links[name] = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))

    def find_layer(self, name: str) -> Descriptor:
        """A layer by its name; UserError."""
        found = self.layers.get(self.links.get(name, name))
        if found is None:
            raise UserError(f"the layer {name} is missing", where=WHERE)
        return found


def is_document(name: str, size: int) -> bool:
    """Whether an entry is a small file that may be wanted."""
    return name.endswith(".json") and size <= MAX_MANIFEST


def is_layer(name: str) -> bool:
    """Whether an entry is a layer: ``ID/layer.tar``, or ``DIGEST.tar``."""
    return name.endswith(".tar")


async def store_layer(
    containerd: Containerd, name: str, size: int, chunks: AsyncIterator[bytes]
) -> Descriptor:
    """Store a layer, whose digest is known when all of it has come; UserError, RpcError."""
    found, hashed = Descriptor(size=size, media_type=_LAYER_TYPE), hashlib.sha256()
    head, left = bytearray(), size

    async def read() -> AsyncGenerator[bytes]:
        nonlocal left
        async for chunk in chunks:
            head.extend(chunk[: len(_GZIP) - len(head)])
            hashed.update(chunk)
            left -= len(chunk)
            yield chunk
        if left:
            raise UserError(ENDS_EARLY, where=WHERE)
        # What is needed at the end of the write.
        found.digest = f"sha256:{hashed.hexdigest()}"

    async with aclosing(read()) as content:
        await store_content(containerd, found, lambda: content, name=name)
    if bytes(head) == _GZIP:
        found.media_type += ".gzip"
    return found


async def store_images(containerd: Containerd, archive: DockerArchive) -> tuple[tuple[str, Descriptor], ...]:
    """Store the configs and manifests of an archive; with the images' names. UserError, RpcError."""
    named: list[tuple[str, Descriptor]] = []
    for entry in parse_images(archive.documents[MANIFEST]):
        config = archive.documents.get(entry.config)
        if config is None:
            raise UserError(f"the config {entry.config} is missing", where=WHERE)
        layers = [archive.find_layer(name) for name in entry.layers]
        parts = [describe(config, _CONFIG_TYPE), *layers]
        document = {
            "schemaVersion": 2,
            "mediaType": _TYPE,
            "config": format_part(parts[0]),
            "layers": [format_part(layer) for layer in layers],
        }
        manifest = json.dumps(document).encode()
        await _store(containerd, parts[0], config)
        target = describe(manifest, _TYPE)
        await _store(containerd, target, manifest)
        named += [(str(parse_reference(name)), target) for name in entry.names]
    return tuple(named)


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerImage:
    """An image in ``manifest.json``: names of entries, and its own."""

    config: str
    layers: tuple[str, ...]
    names: tuple[str, ...]


def parse_images(text: bytes) -> list[DockerImage]:
    """The images of an archive; UserError."""
    try:
        entries: object = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError(f"its {MANIFEST} is no JSON", where=WHERE) from None
    found: list[DockerImage] = []
    for value in cast("list[object]", entries) if isinstance(entries, list) else []:
        entry = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        config, layers, names = (
            entry.get("Config"),
            _texts(entry.get("Layers")),
            _texts(entry.get("RepoTags")),
        )
        if not isinstance(config, str) or len(layers) > MAX_LAYERS:
            raise UserError(f"its {MANIFEST} has another form", where=WHERE)
        if not names:
            raise UserError("an image in it has no name", where=WHERE, hint="name it when it is saved")
        found.append(DockerImage(config=config, layers=layers, names=names))
    return found


def _texts(value: object) -> tuple[str, ...]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return tuple(item for item in items if isinstance(item, str))


def describe(data: bytes, media_type: str) -> Descriptor:
    """The descriptor of content."""
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return Descriptor(digest=digest, size=len(data), media_type=media_type)


def format_part(part: Descriptor) -> dict[str, str | int]:
    """A part of an image as its manifest has it."""
    return {"mediaType": part.media_type, "digest": part.digest, "size": part.size}


async def _store(containerd: Containerd, part: Descriptor, data: bytes) -> None:
    async def chunks() -> AsyncGenerator[bytes]:
        yield data

    await store_content(containerd, part, chunks)
