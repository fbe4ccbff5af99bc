"""Importing images from an archive: a tar of the OCI layout that build tools write, or of ``docker save``.

https://github.com/opencontainers/image-spec/blob/main/image-layout.md
"""

import posixpath
import tarfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import trio

from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.api.rpc import Code, RpcError
from talos.images.manifest import (
    MAX_MANIFEST,
    find_form,
    make_descriptor,
    parse_document,
    parse_index,
    parse_manifest,
)
from talos.images.reference import DIGEST, parse_reference
from talos.machined.containerd.client import Containerd
from talos.machined.containerd.docker_archive import (
    ENDS_EARLY,
    MANIFEST,
    WHERE,
    DockerArchive,
    is_document,
    is_layer,
    store_images,
    store_layer,
)
from talos.machined.containerd.ingest import store_content
from talos.machined.containerd.pull import CONTENT_LABEL, check_room, label_parts, name_image
from talos.machined.containerd.store import label_content, read_content, read_image, unpack
from talos.system.errors import UserError

MAX_ENTRIES = 65536
MAX_IMAGES = 256
_BLOCK = tarfile.BLOCKSIZE
_INDEX = "index.json"
_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd", b"BZ": "bzip2", b"\xfd7": "xz"}


class ChunkReader:
    """Reads exact sizes from chunks as they come."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._held: bytes = b""

    async def read(self, size: int) -> bytes:
        """So many bytes; fewer at the end."""
        parts: list[bytes] = []
        async with aclosing(self.stream(size)) as found:
            async for part in found:
                parts.append(part)  # noqa: PERF401 - it is a stream
        return b"".join(parts)

    async def stream(self, size: int) -> AsyncGenerator[bytes]:
        """So many bytes as they come; fewer at the end."""
        while size > 0:
            if not self._held:
                self._held = await anext(self._chunks, b"")
                if not self._held:
                    return
            part, self._held = self._held[:size], self._held[size:]
            size -= len(part)
            yield part


async def import_archive(
    containerd: Containerd, chunks: AsyncIterator[bytes], *, root: str
) -> tuple[str, ...]:
    """Import every image of an archive; their names. ``root`` is where containerd keeps content.

    UserError: it is no archive, or not complete; then nothing of it is kept.
    RpcError: containerd reports an error.
    """
    reader, docker = ChunkReader(chunks), DockerArchive()
    async with containerd.leased() as leased:
        index = await _store_entries(leased, reader, docker, root)
        if index is not None:
            named = find_named(index)
        elif MANIFEST in docker.documents:
            named = check_count(await store_images(leased, docker))
        else:
            message = f"it has no {_INDEX} and no {MANIFEST}"
            raise UserError(message, where=WHERE, hint="save it as an OCI archive, or with docker save")
        for name, target in named:
            await _finish(leased, name, target)
        for name, target in named:
            await name_image(leased, name, target)
    return tuple(name for name, _ in named)


async def _store_entries(
    containerd: Containerd, reader: ChunkReader, docker: DockerArchive, root: str
) -> bytes | None:
    """Store the blobs of an archive, and note what is Docker's; the index of an OCI layout."""
    index: bytes | None = None
    for _ in range(MAX_ENTRIES):
        header = await reader.read(_BLOCK)
        if not header.strip(b"\0"):
            return index
        entry = parse_header(header)
        size, digest = entry.size, _find_digest(entry)
        name = posixpath.normpath(entry.name)
        if size > 0 and digest:
            await _store_blob(containerd, reader, Descriptor(digest=digest, size=size), root)
        elif entry.issym() and is_layer(name):
            docker.link(name, entry.linkname)
        elif entry.isreg() and name == _INDEX:
            if size > MAX_MANIFEST:
                raise UserError(f"its {_INDEX} has {size} bytes", where=WHERE)
            index = await reader.read(size)
        elif entry.isreg() and is_document(name, size):
            docker.keep(name, await _read_whole(reader, size))
        elif entry.isreg() and is_layer(name):
            docker.layers[name] = await _store_layer(containerd, reader, name, size, root)
        else:
            await _skip(reader, size)
        await reader.read(-size % _BLOCK)
    raise UserError(f"it has more than {MAX_ENTRIES} entries", where=WHERE)


def parse_header(header: bytes) -> tarfile.TarInfo:
    """The entry that a block of 512 bytes announces; UserError."""
    try:
        entry = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        kind = _COMPRESSED.get(header[:2])
        hint = f"it is compressed with {kind}, unpack it first" if kind else ""
        raise UserError("it is no tar archive", where=WHERE, hint=hint) from None
    if entry.size < 0:
        raise UserError("an entry has a negative size", where=WHERE)
    return entry


def _find_digest(entry: tarfile.TarInfo) -> str:
    """The digest that a blob's name gives; none of other entries."""
    parts = entry.name.removeprefix("./").split("/")
    digest = ":".join(parts[1:])
    return digest if entry.isreg() and parts[0] == "blobs" and DIGEST.fullmatch(digest) else ""


async def _store_blob(containerd: Containerd, reader: ChunkReader, blob: Descriptor, root: str) -> None:
    check_room(blob.size, root, WHERE)
    left = blob.size

    async def chunks() -> AsyncGenerator[bytes]:
        nonlocal left
        async with aclosing(reader.stream(blob.size)) as found:
            async for part in found:
                left -= len(part)
                yield part

    try:
        await store_content(containerd, blob, chunks)
    except RpcError as error:
        if error.code is Code.FAILED_PRECONDITION:
            raise UserError(f"its blob {blob.digest} is damaged: {error.reason}", where=WHERE) from None
        raise
    # containerd may have it from before, from another namespace or, by now, from another archive.
    await _skip(reader, left)


async def _read_whole(reader: ChunkReader, size: int) -> bytes:
    data = await reader.read(size)
    if len(data) < size:
        raise UserError(ENDS_EARLY, where=WHERE)
    return data


async def _store_layer(
    containerd: Containerd, reader: ChunkReader, name: str, size: int, root: str
) -> Descriptor:
    check_room(size, root, WHERE)
    async with aclosing(reader.stream(size)) as chunks:
        return await store_layer(containerd, name, size, chunks)


async def _skip(reader: ChunkReader, size: int) -> None:
    async with aclosing(reader.stream(size)) as found:
        async for part in found:
            size -= len(part)
    if size:
        raise UserError(ENDS_EARLY, where=WHERE)


def find_named(index: bytes) -> tuple[tuple[str, Descriptor], ...]:
    """The images of an archive's index, each with its full name; UserError."""
    entries = parse_document(index, WHERE).get("manifests")
    found: list[tuple[str, Descriptor]] = []
    for value in cast("list[object]", entries) if isinstance(entries, list) else []:
        entry = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        notes = entry.get("annotations")
        labels = cast("dict[str, Any]", notes) if isinstance(notes, dict) else {}
        name = next((str(labels[key]) for key in _NAMES if labels.get(key)), "")
        if not name:
            raise UserError("an image in it has no name", where=WHERE, hint="name it when it is saved")
        target = make_descriptor(entry, f"{WHERE}, image {name!r}")
        found.append((str(parse_reference(name)), target))
    return check_count(tuple(found))


def check_count(found: tuple[tuple[str, Descriptor], ...]) -> tuple[tuple[str, Descriptor], ...]:
    """The images of an archive; UserError when there are none or too many."""
    if not found or len(found) > MAX_IMAGES:
        raise UserError(f"it has {len(found)} images", where=WHERE, hint=f"1 to {MAX_IMAGES} can be imported")
    return found


async def _finish(containerd: Containerd, name: str, target: Descriptor) -> None:
    """Label an image's manifests and unpack its layers, unless it is a release."""
    where = f"image {name}"
    try:
        data, inner = await read_content(containerd, target, where), target
        if find_form(data, target.media_type, where) == "index":
            inner = await trio.to_thread.run_sync(parse_index, data, where)
            await label_content(containerd, target.digest, {f"{CONTENT_LABEL}.m.0": inner.digest})
            data = await read_content(containerd, inner, where)
        manifest = await trio.to_thread.run_sync(parse_manifest, data, where)
        await label_content(containerd, inner.digest, label_parts(manifest))
        image = await read_image(containerd, name, target)
        if not manifest.is_release:
            await unpack(containerd, image)
    except RpcError as error:
        if error.code is Code.NOT_FOUND:
            raise UserError("a part of it is missing in the archive", where=where) from None
        raise
