"""A release among containerd's images: its signature checked first, then every byte of its layer."""

from pathlib import Path

import trio

from talos.api.containerd import images_pb2
from talos.images.manifest import find_form, parse_index, parse_manifest
from talos.images.reference import parse_reference
from talos.machined.containerd.client import Containerd
from talos.machined.containerd.store import read_content
from talos.system.errors import UserError
from talos.upgrade.release.archive import read_annotations
from talos.upgrade.release.layer import Release, check_layer
from talos.upgrade.release.manifest import ReleaseManifest, find_version, parse_release
from talos.upgrade.release.signature import KEYS, load_keys, load_needed, verify

BLOBS = "io.containerd.content.v1.content/blobs"
"""Within containerd's root, files named by their digests."""


async def load_release(containerd: Containerd, reference: str, *, root: str, keys: Path = KEYS) -> Release:
    """Find an image and check it. UserError with the reason when it may not be installed.

    ``root`` is where this instance of containerd keeps its content.
    """
    name = str(parse_reference(reference))
    where = f"image {name}"
    request = images_pb2.GetImageRequest(name=name)
    found = await containerd.find("images.v1.Images/Get", request, images_pb2.GetImageResponse)
    if found is None:
        raise UserError("is not there", where=where, hint="talosctl image pull or image import brings it")
    target = found.image.target
    data = await read_content(containerd, target, where)
    if find_form(data, target.media_type, where) == "index":
        data = await read_content(containerd, parse_index(data, where), where)
    release = await check_manifest(data, where, keys=keys)
    digest = parse_manifest(data, where).layers[0].digest
    path = Path(root, BLOBS, *digest.split(":", 1))
    layer = await trio.to_thread.run_sync(check_layer, path, release)
    wanted = find_version(name)
    if wanted and wanted != release.version:
        text = f"is the release {release.version}, not {wanted} which is its tag"
        raise UserError(text, where=where, hint="request it by its own version")
    return Release(name=name, manifest=release, layer=layer)


async def check_manifest(data: bytes, where: str, *, keys: Path = KEYS) -> ReleaseManifest:
    """The release that an image's manifest describes; UserError when too few trusted keys have signed it."""
    manifest, signature = read_annotations(parse_manifest(data, where).annotations, where)
    await trio.to_thread.run_sync(lambda: verify(manifest, signature, load_keys(keys), load_needed(keys)))
    return parse_release(manifest)
