"""Making a cache of images: pulled with all their parts into the flat layout, or an OCI layout of that.

What has been pulled is kept beside the path until all of it is there, so that another try goes on with it.
"""

import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import trio

from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.images.cache.layout import name_manifest
from talos.images.manifest import find_form, parse_manifest, parse_platforms
from talos.images.reference import Reference, parse_reference
from talos.images.registry.hosts import NoSuchImageError, Sources
from talos.images.registry.session import Fetched, Session, open_session
from talos.provision.mirror.oci_layout import write_layout
from talos.provision.mirror.tree import Tree
from talos.system.errors import UserError
from talos.system.sizes import format_pretty_size

PARALLEL = 3
"""Parts of one image that are fetched at a time."""
STAGING = ".partial"

type Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRequest:
    """A cache to make. No ``platforms``: all that an image has. ``layers`` is a folder that keeps blobs."""

    images: tuple[str, ...]
    path: Path
    sources: Callable[[Reference], Sources]
    platforms: tuple[str, ...] = ()
    is_flat: bool = False
    layers: Path | None = None
    signatures: bool = True


def ignore(text: str) -> None:
    """Show nothing."""
    del text


async def make_cache(request: CacheRequest, report: Report = ignore, progress: Report = ignore) -> None:
    """Pull all images and put the cache in its place, over what is there; UserError, OSError.

    ``report`` gets what is done, ``progress`` how far the rest is.
    """
    references = [parse_reference(image) for image in request.images]
    staging = request.path.with_name(request.path.name + STAGING)
    tree = Tree(staging / "flat", request.layers)
    for number, reference in enumerate(references, 1):
        prefix = f"{number} of {len(references)}: {reference}"
        size = await _pull(
            tree, request, reference, lambda text, prefix=prefix: progress(f"{prefix}: {text}")
        )
        report(f"{prefix}: {format_pretty_size(size)}")
    tree.prune()
    made = tree.root
    if not request.is_flat:
        progress("writing the layout")
        made = staging / "oci"
        platform = request.platforms[0] if request.platforms else "linux/amd64"
        await trio.to_thread.run_sync(write_layout, tree.root, made, platform)
    if request.path.is_dir() and not request.path.is_symlink():
        shutil.rmtree(request.path)
    else:
        request.path.unlink(missing_ok=True)
    made.rename(request.path)
    shutil.rmtree(staging)


async def _pull(tree: Tree, request: CacheRequest, reference: Reference, report: Report) -> int:
    """One image with its signatures; the bytes of it."""
    session = open_session(reference, request.sources(reference))
    where = f"image {reference}"
    top = await session.fetch_manifest(reference.object)
    manifests = await _store_manifests(tree, session, top, "" if reference.digest else reference.tag)
    if not manifests:
        entries = parse_platforms(top.data, where)
        for descriptor in choose_platforms(entries, request.platforms, where):
            manifests += await _store_manifests(
                tree, session, await session.fetch_manifest(descriptor.digest, descriptor)
            )
    if request.signatures:
        manifests += await _pull_signatures(tree, session, top.descriptor.digest)
    parts = {
        part.digest: part
        for data in manifests
        for manifest in [parse_manifest(data, where)]
        for part in (manifest.config, *manifest.layers)
    }
    await _store_blobs(tree, session, list(parts.values()), report)
    return sum(part.size for part in parts.values())


def choose_platforms(
    entries: Sequence[tuple[str, Descriptor]], platforms: Sequence[str], where: str
) -> list[Descriptor]:
    """The manifests for some platforms, for all without a choice; UserError when one is missing."""
    if not platforms:
        return [descriptor for _, descriptor in entries]
    found: list[Descriptor] = []
    for platform in platforms:
        exact = [one for name, one in entries if name == platform]
        # ``linux/arm64`` has the variant v8 in some indexes.
        chosen = exact or [one for name, one in entries if name.startswith(f"{platform}/")]
        if not chosen:
            known = ", ".join(name for name, _ in entries)
            raise UserError(f"there is no image for {platform}", where=where, hint=f"it has {known}")
        found.append(chosen[0])
    return found


async def _store_manifests(tree: Tree, session: Session, fetched: Fetched, tag: str = "") -> list[bytes]:
    """Store a manifest or an index by its digest and a tag; itself, if it has parts to fetch."""
    reference = session.reference
    for name in filter(None, (fetched.descriptor.digest, tag)):
        tree.write(name_manifest(reference.registry, reference.repository, name), fetched.data)
    form = find_form(fetched.data, fetched.descriptor.media_type, f"image {reference}")
    return [fetched.data] if form == "manifest" else []


async def _pull_signatures(tree: Tree, session: Session, digest: str) -> list[bytes]:
    """What cosign has stored beside an image under a tag that is made of its digest; manifests."""
    base = digest.replace(":", "-")
    for tag in (f"{base}.sig", base):
        with suppress(NoSuchImageError):
            top = await session.fetch_manifest(tag)
            manifests = await _store_manifests(tree, session, top, tag)
            if not manifests:
                for _, descriptor in parse_platforms(top.data, f"signatures {tag}"):
                    inner = await session.fetch_manifest(descriptor.digest, descriptor)
                    manifests += await _store_manifests(tree, session, inner)
            return manifests
    return []


async def _store_blobs(tree: Tree, session: Session, parts: Sequence[Descriptor], report: Report) -> None:
    total, done = sum(part.size for part in parts), 0
    limit = trio.CapacityLimiter(PARALLEL)
    failures: list[UserError | OSError] = []

    def advance(size: int) -> None:
        nonlocal done
        done += size
        report(f"{format_pretty_size(done)} of {format_pretty_size(total)}")

    async def store(part: Descriptor) -> None:
        async with limit:
            try:
                await tree.store(session, part, advance)
            except (UserError, OSError) as error:
                failures.append(error)
                nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for part in parts:
            nursery.start_soon(store, part)
    if failures:
        raise failures[0]


def read_list(lines: Iterable[str]) -> list[str]:
    """The images of a list, one a line; empty lines and what follows ``#`` are left out."""
    return [text for line in lines if (text := line.partition("#")[0].strip())]
