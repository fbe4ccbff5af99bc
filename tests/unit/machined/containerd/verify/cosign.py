"""Signatures as cosign puts them beside an image in a registry."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, override

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from tests.harness.registry import INDEX, MANIFEST, Handler, Store, encode

from talos.machined.containerd.verify.search import BUNDLES
from talos.machined.containerd.verify.signature import SIGNED, STATEMENT
from talos.pki.keys import PrivateKey

PLACE = "team/app"
BUNDLE = BUNDLES[0]
PAYLOAD = "application/vnd.dev.cosign.simplesigning.v1+json"
REFERRERS = "/v2/team/app/referrers/"


class WithReferrers(Handler):
    """Lists what refers to an image."""

    @override
    def may_pass(self) -> bool:
        if not self.path.startswith(REFERRERS):
            return True
        digest = self.path.removeprefix(REFERRERS).partition("?")[0]
        found = self.store.tags.get((PLACE, f"referrers of {digest}"))
        if found is None:
            self.answer(404, b"{}", "application/json")
        else:
            self.answer(200, self.store.blobs[found], INDEX)
        return False


def sign(key: PrivateKey, data: bytes) -> str:
    match key:
        case ec.EllipticCurvePrivateKey():
            signature = key.sign(data, ec.ECDSA(SHA256()))
        case rsa.RSAPrivateKey():
            signature = key.sign(data, padding.PKCS1v15(), SHA256())
        case ed25519.Ed25519PrivateKey():
            signature = key.sign(data)
    return base64.b64encode(signature).decode()


def make_bundle(key: PrivateKey, digest: str, *, predicate: str = SIGNED, kind: str = BUNDLE) -> bytes:
    statement = encode(
        {"subject": [{"digest": {"sha256": digest.removeprefix("sha256:")}}], "predicateType": predicate}
    )
    signed = b"DSSEv1 %d %s %d %s" % (len(STATEMENT), STATEMENT.encode(), len(statement), statement)
    envelope = {
        "payload": base64.b64encode(statement).decode(),
        "payloadType": STATEMENT,
        "signatures": [{"sig": sign(key, signed)}],
    }
    return encode({"mediaType": kind, "verificationMaterial": {}, "dsseEnvelope": envelope})


def make_claim(digest: str) -> bytes:
    image = {"docker-manifest-digest": digest}
    return encode({"critical": {"image": image, "type": "cosign container image signature"}})


@dataclass(frozen=True)
class Image:
    """An image in a registry, to which signatures are added as cosign does."""

    store: Store
    digest: str

    def add_manifest(self, tag: str, *layers: Mapping[str, Any]) -> dict[str, Any]:
        config = self.store.add(b"{}", "application/vnd.oci.empty.v1+json")
        document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [*layers]}
        descriptor = self.store.add(encode(document), MANIFEST)
        self.store.tags[PLACE, tag] = descriptor["digest"]
        return descriptor

    def add_referrer(self, bundle: bytes) -> None:
        descriptor = self.add_manifest("referrer", self.store.add(bundle, BUNDLE))
        index = encode({"schemaVersion": 2, "manifests": [{**descriptor, "artifactType": BUNDLE}]})
        self.store.tags[PLACE, f"referrers of {self.digest}"] = self.store.add(index, INDEX)["digest"]

    def add_bundle(self, bundle: bytes) -> None:
        self.add_manifest(self.digest.replace(":", "-"), self.store.add(bundle, BUNDLE))

    def add_legacy(self, key: PrivateKey, payload: bytes) -> None:
        annotations = {"dev.cosignproject.cosign/signature": sign(key, payload)}
        layer = {**self.store.add(payload, PAYLOAD), "annotations": annotations}
        self.add_manifest(f"{self.digest.replace(':', '-')}.sig", layer)


def make_image() -> Image:
    """One that is not signed yet."""
    store = Store()
    return Image(store, store.add_image("team/app:1", {"a": b"1"}, compress=False)["digest"])
