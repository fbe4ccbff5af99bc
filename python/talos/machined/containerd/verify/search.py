"""Whether an image may be pulled: the rule for it, and the signatures that its registry has."""

import hashlib
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.api.rpc import Code, RpcError
from talos.images.manifest import find_form, make_descriptor, parse_document
from talos.images.reference import Reference
from talos.images.registry.hosts import NoSuchImageError, RegistryError
from talos.images.rules import Rule, find_rule
from talos.system.errors import UserError
from talos.system.parsed import as_object

if TYPE_CHECKING:
    from talos.images.registry.session import Fetched, Session

MAX_MANIFEST = 128 * 1024
"""Bytes of the manifest of a signature."""
MAX_SIGNATURE = 1024 * 1024
"""Bytes of a bundle or a signed payload."""
MAX_SIGNATURES = 100
"""Of an image, that are looked at."""
BUNDLES = (
    "application/vnd.dev.sigstore.bundle.v0.3+json",
    "application/vnd.dev.sigstore.bundle+json;version=0.3",
)
"""Media types of bundles; older ones may lack what they are verified by."""
_SIGNATURE = "dev.cosignproject.cosign/signature"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of an image that may be pulled."""

    verified: bool
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A bundle; or, with a signature in base64, a payload of the older form."""

    data: bytes
    message: str
    signature: str = ""


def judge(rules: Iterable[Rule], reference: Reference) -> Verdict | Rule:
    """The verdict on an image whatever it is, or the rule by which it is verified. PERMISSION_DENIED."""
    rule = find_rule(rules, reference)
    if rule is None:
        return Verdict(verified=False, message="no matched rule")
    if rule.deny:
        raise RpcError(Code.PERMISSION_DENIED, f"verification denied by matched rule ({rule.id})")
    if rule.skip:
        return Verdict(verified=False, message=f"verification skipped by matched rule ({rule.id})")
    return rule


async def verify_image(session: "Session", image: "Fetched", rule: Rule) -> Verdict:
    """Look for a signature that a rule asks for; PERMISSION_DENIED when there is none."""
    try:
        return await _verify(session, image, rule)
    except UserError as error:
        text = f"image verification failed: {error} (rule {rule.id})"
        raise RpcError(Code.PERMISSION_DENIED, text) from None


async def _verify(session: "Session", image: "Fetched", rule: Rule) -> Verdict:
    # What verifies is loaded on nodes whose config has rules only.
    from talos.machined.containerd.verify.signature import verify_bundle, verify_payload
    from talos.pki.keys import parse_public_key

    if rule.keyless and not rule.key:
        raise UserError("the rule asks for keyless signatures", hint="nodes verify by public keys only")
    key = parse_public_key(rule.key.encode(), where=f"publicKey of rule {rule.id}")
    failures: dict[str, None] = {}
    count = 0
    async with aclosing(_find_signatures(session, image.descriptor.digest)) as signatures:
        async for found in signatures:
            count += 1
            if count > MAX_SIGNATURES:
                failures[f"more than {MAX_SIGNATURES} signatures"] = None
                break
            try:
                if found.signature:
                    verify_payload(found.data, found.signature, image.data, key, found.message)
                else:
                    verify_bundle(found.data, image.data, key, found.message)
            except UserError as error:
                failures[str(error)] = None
            else:
                return Verdict(verified=True, message=found.message)
    raise UserError("; ".join(failures) or "it is not signed", where=f"image {session.reference}")


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
        if signature := annotations.get(_SIGNATURE):
            message = "verified via legacy signature (bundle verified false)"
            yield _Found(data=await _read_blob(session, layer), message=message, signature=str(signature))


async def _list_referrers(session: "Session", digest: str, where: str) -> list[Descriptor]:
    """The manifests with bundles that refer to an image; none from a registry that keeps no such list."""
    try:
        data = await session.fetch_referrers(digest)
    except NoSuchImageError:
        return []
    entries = _list_of(parse_document(data, where), "manifests")
    return [make_descriptor(one, where) for one in entries if one.get("artifactType") in BUNDLES]


async def _list_bundles(session: "Session", manifest: "Fetched", where: str) -> list[Descriptor]:
    """The bundles of a manifest, or of all manifests of an index."""
    manifests = [manifest]
    if find_form(manifest.data, manifest.descriptor.media_type, where) == "index":
        entries = _list_of(parse_document(manifest.data, where), "manifests")[:MAX_SIGNATURES]
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
    for entry in _list_of(parse_document(manifest.data, where), "layers")[:MAX_SIGNATURES]:
        yield make_descriptor(entry, where), as_object(entry.get("annotations"))


def _list_of(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The objects in a list of a JSON object, or none."""
    value: object = document.get(key)
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", item) for item in items if isinstance(item, dict)]


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
