"""Whether an image may be pulled: the rule for it, and the signatures that its registry has.

Signatures are verified by a program of its own (:mod:`talos.machined.containerd.verify.program`).
"""

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import trio

from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.api.rpc import Code, RpcError
from talos.images.manifest import find_form, make_descriptor, parse_document
from talos.images.reference import Reference
from talos.images.registry.hosts import NoSuchImageError, RegistryError
from talos.images.rules import Rule, find_rule
from talos.machined.containerd.verify.parts import objects_of
from talos.machined.containerd.verify.request import (
    BUNDLES,
    MAX_REASON,
    PROGRAM,
    REFUSED,
    Request,
    format_requests,
)
from talos.resource import ids
from talos.resource.changes import wait_for
from talos.resource.state import State
from talos.system.errors import UserError
from talos.system.parsed import as_object
from talos.system.process import Finished, describe_exit

if TYPE_CHECKING:
    from talos.images.registry.session import Fetched, Session

MAX_MANIFEST = 128 * 1024
"""Bytes of the manifest of a signature."""
MAX_SIGNATURE = 1024 * 1024
"""Bytes of a bundle or a signed payload."""
MAX_SIGNATURES = 100
"""Of an image, that are looked at."""
MAX_SIZE = 4 * 1024 * 1024
"""Bytes of all these; a bundle has about ten thousand."""
ROOT_TIMEOUT = 15.0
"""Seconds that a pull waits for the root of trust, as upstream's."""
MAX_REASONS = 3
"""Of an image that is refused, that are shown."""
SIGNATURE = "dev.cosignproject.cosign/signature"
CERTIFICATE = "dev.sigstore.cosign/certificate"
ENTRY = "dev.sigstore.cosign/bundle"
"""Annotations of a signed payload; the entry is that of the transparency log."""

type Run = Callable[[Sequence[str], bytes], Awaitable[Finished]]
"""Runs a program with this input to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of an image that may be pulled."""

    verified: bool
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """What runs the program that verifies signatures, and where the root of trust of keyless ones is."""

    run: Run
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A bundle; or, with annotations, a signed payload of the older form."""

    data: bytes
    message: str
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])


def apply_rules(rules: Iterable[Rule], reference: Reference) -> Verdict | Rule:
    """The verdict on an image whatever it is, or the rule by which it is verified. PERMISSION_DENIED."""
    rule = find_rule(rules, reference)
    if rule is None:
        return Verdict(verified=False, message="no matched rule")
    if rule.deny:
        raise RpcError(Code.PERMISSION_DENIED, f"verification denied by matched rule ({rule.id})")
    if rule.skip:
        return Verdict(verified=False, message=f"verification skipped by matched rule ({rule.id})")
    return rule


async def verify_image(session: "Session", image: "Fetched", rule: Rule, verifier: Verifier) -> Verdict:
    """Look for a signature that a rule demands; PERMISSION_DENIED when there is none."""
    try:
        request = await _make_request(rule, image.data, verifier.state)
        return await _verify(session, image, request, verifier.run)
    except UserError as error:
        text = f"image verification failed: {error} (rule {rule.id})"
        raise RpcError(Code.PERMISSION_DENIED, text) from None


async def _make_request(rule: Rule, image: bytes, state: State) -> Request:
    """Who may have signed an image by a rule, without a signature yet; UserError."""
    empty = Request(image=image, data=b"", where="")
    if rule.key:
        return replace(empty, key=rule.key)
    if rule.keyless is None:
        raise UserError("there is neither a key nor an identity")
    trusted_root = ""
    with trio.move_on_after(ROOT_TIMEOUT):
        trusted_root = (await wait_for(state, *ids.TUF_TRUSTED_ROOT, lambda _: True)).spec.json_data
    if not trusted_root:
        raise UserError("there is no trusted root for keyless signatures yet", hint="try again")
    return replace(
        empty,
        issuer=rule.keyless.issuer or "",
        subject=rule.keyless.subject or "",
        subject_regex=rule.keyless.subject_regex or "",
        trusted_root=trusted_root,
    )


async def _verify(session: "Session", image: "Fetched", request: Request, run: Run) -> Verdict:
    """Run the program for the first signature, and once more for all others: an image may have many."""
    failures: dict[str, None] = {}
    batch: list[_Found] = []
    count = size = 0
    async with aclosing(_find_signatures(session, image.descriptor.digest)) as signatures:
        async for found in signatures:
            count, size = count + 1, size + len(found.data)
            if count > MAX_SIGNATURES or size > MAX_SIZE:
                failures[f"more than {MAX_SIGNATURES} signatures, or {MAX_SIZE} bytes of them"] = None
                break
            batch.append(found)
            if count == 1:
                if verdict := await _verify_batch(batch, request, run, failures):
                    return verdict
                batch = []
    if batch and (verdict := await _verify_batch(batch, request, run, failures)):
        return verdict
    reasons = "; ".join([*failures][:MAX_REASONS]) or "it is not signed"
    more = f"; and {len(failures) - MAX_REASONS} more" if len(failures) > MAX_REASONS else ""
    raise UserError(f"{reasons}{more}", where=f"image {session.reference}")


async def _verify_batch(
    batch: Sequence[_Found], request: Request, run: Run, failures: dict[str, None]
) -> Verdict | None:
    """The verdict by the first of these signatures that is right; else their reasons are added."""
    requests = [
        replace(
            request,
            data=found.data,
            where=found.message.removeprefix("verified via "),
            signature=found.annotations.get(SIGNATURE, ""),
            certificate=found.annotations.get(CERTIFICATE, ""),
            entry=found.annotations.get(ENTRY, ""),
        )
        for found in batch
    ]
    done = await run((PROGRAM,), format_requests(requests))
    reasons = find_reasons(done)
    if done.code == 0 and len(reasons) < len(batch):
        return Verdict(verified=True, message=_describe(batch[len(reasons)], request))
    failures |= dict.fromkeys(reasons)
    return None


def find_reasons(done: Finished) -> list[str]:
    """Why the program has not verified signatures; where it ends with 0, the next one is right."""
    known = done.code in (0, REFUSED)
    lines = done.stderr.decode(errors="replace").splitlines() if known else []
    reasons = [
        "".join(one if one.isprintable() else "?" for one in line[:MAX_REASON])
        for line in lines[:MAX_SIGNATURES]
    ]
    return reasons if reasons or done.code == 0 else [f"{PROGRAM} failed with {describe_exit(done.code)}"]


def _describe(found: _Found, request: Request) -> str:
    """How an image was verified, in upstream's words; a payload's entry in the log counts as its bundle."""
    return (
        f"{found.message} (bundle verified {str(not request.key).lower()})"
        if found.annotations
        else found.message
    )


async def _find_signatures(session: "Session", digest: str) -> AsyncGenerator[_Found]:
    """Bundles that refer to the image; if there are none, those of its tag; if not, the older form."""
    where = f"image {session.reference}"
    tag = digest.replace(":", "-")
    has_bundles = False
    for referrer in await _list_referrers(session, digest, where):
        manifest = await session.fetch_manifest(referrer.digest, referrer)
        for blob in await _list_bundles(session, manifest, where):
            has_bundles = True
            message = f"verified via bundle referrer with digest {referrer.digest}"
            yield _Found(data=await _read_blob(session, blob), message=message)
    if has_bundles:
        return
    tagged = await _find_manifest(session, tag)
    for blob in await _list_bundles(session, tagged, where) if tagged else ():
        has_bundles = True
        yield _Found(data=await _read_blob(session, blob), message="verified via bundle")
    if has_bundles:
        return
    old = await _find_manifest(session, f"{tag}.sig")
    for layer, annotations in _list_layers(old, where) if old else ():
        texts = {key: text for key, text in annotations.items() if isinstance(text, str)}
        if texts.get(SIGNATURE):
            data = await _read_blob(session, layer)
            yield _Found(data=data, message="verified via legacy signature", annotations=texts)


async def _list_referrers(session: "Session", digest: str, where: str) -> list[Descriptor]:
    """The manifests with bundles that refer to an image; none from a registry that keeps no such list."""
    try:
        data = await session.fetch_referrers(digest)
    except NoSuchImageError:
        return []
    entries = objects_of(parse_document(data, where), "manifests")
    return [make_descriptor(one, where) for one in entries if one.get("artifactType") in BUNDLES]


async def _list_bundles(session: "Session", manifest: "Fetched", where: str) -> list[Descriptor]:
    """The bundles of a manifest, or of all manifests of an index."""
    manifests = [manifest]
    if find_form(manifest.data, manifest.descriptor.media_type, where) == "index":
        entries = objects_of(parse_document(manifest.data, where), "manifests")[:MAX_SIGNATURES]
        inner = [make_descriptor(entry, where) for entry in entries]
        manifests = [await session.fetch_manifest(one.digest, one) for one in inner]
    layers = [layer for one in manifests for layer, _ in _list_layers(one, where)]
    return [layer for layer in layers if layer.media_type in BUNDLES]


async def _find_manifest(session: "Session", tag: str) -> "Fetched | None":
    try:
        return await session.fetch_manifest(tag)
    except NoSuchImageError:
        return None


def _list_layers(manifest: "Fetched", where: str) -> Iterator[tuple[Descriptor, Mapping[str, Any]]]:
    """Layers with their annotations; UserError."""
    if len(manifest.data) > MAX_MANIFEST:
        raise UserError(f"the manifest of a signature has {len(manifest.data)} bytes", where=where)
    for entry in objects_of(parse_document(manifest.data, where), "layers")[:MAX_SIGNATURES]:
        yield make_descriptor(entry, where), as_object(entry.get("annotations"))


async def _read_blob(session: "Session", blob: Descriptor) -> bytes:
    """A small blob, whose digest is right; UserError."""
    if blob.size > MAX_SIGNATURE:
        raise UserError(f"a signature of {blob.size} bytes", where=f"image {session.reference}")

    async def collect(chunks: AsyncGenerator[bytes]) -> bytes:
        data = b"".join([chunk async for chunk in chunks])
        algorithm, _, digest = blob.digest.partition(":")
        if hashlib.new(algorithm, data).hexdigest() != digest:
            raise RegistryError("what it sends is not this blob")
        return data

    return await session.fetch_blob(blob, collect)
