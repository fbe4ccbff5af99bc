"""Pulling an image into containerd: its parts fetched and stored, its layers unpacked, then its name.

The name comes last: until then all of it is held by a lease only, and a pull that fails leaves nothing.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import trio

from talos.api.containerd import images_pb2
from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.api.definitions.cri_pb2 import RegistriesConfigSpec
from talos.api.rpc import Code, RpcError
from talos.config.active import load_config
from talos.images.manifest import Manifest, find_form, parse_index, parse_manifest
from talos.images.reference import parse_reference
from talos.images.registry.hosts import RegistryError, Sources
from talos.images.rules import make_rules
from talos.machined.containerd.cache import bypass_proxies, wait_for_cache
from talos.machined.containerd.client import Containerd
from talos.machined.containerd.ingest import store_content
from talos.machined.containerd.store import Image, measure_room, read_image, unpack
from talos.machined.containerd.verify.search import Verdict, Verifier, apply_rules, verify_image
from talos.machined.node.resources import read_variables
from talos.resource import ids
from talos.resource.state import NotFoundError, State
from talos.system.errors import UserError

if TYPE_CHECKING:
    from talos.images.registry.session import Fetched, Session

PARALLEL = 3
"""Parts of one image that are fetched at a time."""
CONTENT_LABEL = "containerd.io/gc.ref.content"
VERIFIED_LABEL = "talos.dev/verified"
"""On an image: how its signature was verified."""


class Step(Enum):
    """What happens to a layer, in the API's words."""

    DOWNLOADING = "DOWNLOADING"
    DOWNLOADED = "DOWNLOAD_COMPLETE"
    EXTRACTING = "EXTRACTING"
    EXTRACTED = "EXTRACT_COMPLETE"
    EXISTS = "ALREADY_EXISTS"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerProgress:
    """How far a layer is: ``offset`` of ``total`` bytes."""

    layer: str
    step: Step
    offset: int
    total: int


type Report = Callable[[LayerProgress], None]
type Admit = Callable[[bytes, str], Awaitable[None]]
"""Refuses an image by its manifest before anything else of it is fetched: UserError with the place."""


async def admit_all(data: bytes, where: str) -> None:
    """Refuse nothing."""
    del data, where
    await trio.lowlevel.checkpoint()


async def read_sources(state: State) -> Sources:
    """Where images come from as it is configured now; nothing is before there is a config."""
    await wait_for_cache(state)
    registries = RegistriesConfigSpec()
    with suppress(NotFoundError):
        registries = (await state.get(*ids.REGISTRY_CONFIG)).spec
    return Sources(
        registries=registries,
        environment=bypass_proxies(await read_variables(state)),
        # Of the config itself: no pull gets ahead of the controller that makes resources of them.
        rules=make_rules(await load_config(state)),
    )


async def pull_image(
    containerd: Containerd,
    name: str,
    sources: Sources,
    *,
    root: str,
    verifier: Verifier,
    report: Report = lambda _: None,
    admit: Admit = admit_all,
    names_digest: bool = False,
) -> Image:
    """Pull an image, whether or not there is one of this name; ``root`` is where containerd keeps content.

    With ``names_digest`` one that is pulled by its tag gets the name with its digest, too. A release is not
    unpacked. Nothing is fetched of an image that the config's rules refuse.

    UserError: the reference, the sources or what they send is not right.
    RpcError: containerd reports an error; PERMISSION_DENIED: the rules refuse the image.
    """
    # What HTTP needs is not loaded before a node is up.
    from talos.images.registry.session import open_session

    reference = parse_reference(name)
    judged = apply_rules(sources.rules, reference)
    session = open_session(reference, sources)
    where = f"image {reference}"
    top = await session.fetch_manifest(reference.object)
    verdict = judged if isinstance(judged, Verdict) else await verify_image(session, top, judged, verifier)
    inner = top
    if find_form(top.data, top.descriptor.media_type, where) == "index":
        wanted = await trio.to_thread.run_sync(parse_index, top.data, where)
        inner = await session.fetch_manifest(wanted.digest, wanted)
    manifest = await trio.to_thread.run_sync(parse_manifest, inner.data, where)
    check_room(manifest.size, root, where)
    await admit(inner.data, where)
    async with containerd.leased() as leased:
        await _store_parts(leased, session, manifest, report)
        await _store_manifest(leased, inner, label_parts(manifest))
        if inner is not top:
            await _store_manifest(leased, top, {f"{CONTENT_LABEL}.m.0": inner.descriptor.digest})
        image = await read_image(leased, str(reference), top.descriptor)
        if not manifest.is_release:
            for layer in manifest.layers:
                report(_make_progress(layer, Step.EXTRACTING, 0))
            await unpack(leased, image)
        for layer in manifest.layers:
            report(_make_progress(layer, Step.EXTRACTED, layer.size))
        labels = {VERIFIED_LABEL: verdict.message} if verdict.verified else {}
        await name_image(leased, image.name, top.descriptor, labels)
        pinned = str(reference.pinned(top.descriptor.digest))
        if names_digest and pinned != image.name:
            await name_image(leased, pinned, top.descriptor, labels)
    return image


def check_room(size: int, root: str, where: str) -> None:
    """Refuse so many bytes when the disk has no room for them, before anything is fetched; UserError."""
    room = measure_room(root)
    if size > room:
        raise UserError(
            f"it takes {size} bytes, of {room} that {root} has room for",
            where=where,
            hint="remove images, or use a larger disk",
        )


async def _store_parts(
    containerd: Containerd, session: "Session", manifest: Manifest, report: Report
) -> None:
    limit = trio.CapacityLimiter(PARALLEL)
    failures: list[UserError | RpcError] = []

    async def store(part: Descriptor) -> None:
        async with limit:
            try:
                await _store_part(containerd, session, part, report)
            except (UserError, RpcError) as error:
                failures.append(error)
                nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        parts = {part.digest: part for part in (manifest.config, *manifest.layers)}
        for part in parts.values():
            nursery.start_soon(store, part)
    if failures:
        raise failures[0]


async def _store_part(containerd: Containerd, session: "Session", part: Descriptor, report: Report) -> None:
    async def store(chunks: AsyncGenerator[bytes]) -> bool:
        try:
            return await store_content(
                containerd,
                part,
                lambda: chunks,
                progress=lambda offset: report(_make_progress(part, Step.DOWNLOADING, offset)),
            )
        except RpcError as error:
            if error.code is Code.FAILED_PRECONDITION:  # another size or digest than expected
                raise RegistryError(f"what it sends is not this blob: {error.reason}") from None
            raise

    report(_make_progress(part, Step.DOWNLOADING, 0))
    was_missing = await session.fetch_blob(part, store)
    report(_make_progress(part, Step.DOWNLOADED if was_missing else Step.EXISTS, part.size))


async def _store_manifest(containerd: Containerd, fetched: "Fetched", labels: Mapping[str, str]) -> None:
    async def chunks() -> AsyncGenerator[bytes]:
        yield fetched.data

    await store_content(containerd, fetched.descriptor, chunks, labels=labels)


def label_parts(manifest: Manifest) -> Mapping[str, str]:
    """The parts that the collector of garbage spares for as long as there is the manifest."""
    layers = {f"{CONTENT_LABEL}.l.{number}": layer.digest for number, layer in enumerate(manifest.layers)}
    return {f"{CONTENT_LABEL}.config": manifest.config.digest, **layers}


async def name_image(
    containerd: Containerd, name: str, target: Descriptor, labels: Mapping[str, str] | None = None
) -> None:
    """Give an image its name, which another one may have had."""
    image = images_pb2.Image(name=name, target=target, labels=labels)
    try:
        create = images_pb2.CreateImageRequest(image=image)
        await containerd.call("images.v1.Images/Create", create, images_pb2.CreateImageResponse)
    except RpcError as error:
        if error.code is not Code.ALREADY_EXISTS:
            raise
        update = images_pb2.UpdateImageRequest(image=image)
        await containerd.call("images.v1.Images/Update", update, images_pb2.UpdateImageResponse)


def _make_progress(layer: Descriptor, step: Step, offset: int) -> LayerProgress:
    return LayerProgress(layer=layer.digest, step=step, offset=offset, total=layer.size)
