"""Signatures as cosign puts them beside an image in a registry."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, override

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from tests.harness import rekor2
from tests.harness.registry import INDEX, MANIFEST, Handler, Store, encode
from tests.harness.rekor2 import Rekor2
from tests.harness.sigstore import NOW, Identity, Sigstore, make_dsse_body, make_hashed_body, to_pem

from talos.machined.containerd.verify.request import BUNDLES
from talos.machined.containerd.verify.search import CERTIFICATE, ENTRY, SIGNATURE
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


def make_statement(digest: str, predicate: str = SIGNED) -> bytes:
    subject = {"digest": {"sha256": digest.removeprefix("sha256:")}}
    return encode({"subject": [subject], "predicateType": predicate})


def make_envelope(key: PrivateKey, statement: bytes) -> dict[str, Any]:
    signed = b"DSSEv1 %d %s %d %s" % (len(STATEMENT), STATEMENT.encode(), len(statement), statement)
    return {
        "payload": base64.b64encode(statement).decode(),
        "payloadType": STATEMENT,
        "signatures": [{"sig": sign(key, signed)}],
    }


def make_bundle(key: PrivateKey, digest: str, *, predicate: str = SIGNED, kind: str = BUNDLE) -> bytes:
    envelope = make_envelope(key, make_statement(digest, predicate))
    return encode({"mediaType": kind, "verificationMaterial": {}, "dsseEnvelope": envelope})


def make_keyless_bundle(
    sigstore: Sigstore, identity: Identity, digest: str, at: datetime = NOW
) -> dict[str, Any]:
    """What `cosign sign` makes for an identity."""
    statement = make_statement(digest)
    envelope = make_envelope(identity.key, statement)
    signature = base64.b64decode(envelope["signatures"][0]["sig"])
    entry = sigstore.record(make_dsse_body(statement, signature, identity.certificate), at)
    certificate = base64.b64encode(identity.certificate.public_bytes(Encoding.DER)).decode()
    material = {"certificate": {"rawBytes": certificate}, "tlogEntries": [entry]}
    return {"mediaType": BUNDLE, "verificationMaterial": material, "dsseEnvelope": envelope}


def make_rekor2_bundle(log: Rekor2, identity: Identity, digest: str, at: datetime = NOW) -> dict[str, Any]:
    """The same with Rekor 2 and a timestamp."""
    statement = make_statement(digest)
    envelope = make_envelope(identity.key, statement)
    signature = base64.b64decode(envelope["signatures"][0]["sig"])
    certificate = base64.b64encode(identity.certificate.public_bytes(Encoding.DER)).decode()
    material = {
        "certificate": {"rawBytes": certificate},
        "tlogEntries": [log.record(rekor2.make_dsse_body(statement, signature, identity.certificate))],
        "timestampVerificationData": log.make_timestamps(signature, at),
    }
    return {"mediaType": BUNDLE, "verificationMaterial": material, "dsseEnvelope": envelope}


def make_keyless_annotations(
    sigstore: Sigstore, identity: Identity, payload: bytes, at: datetime = NOW
) -> dict[str, str]:
    """Those of a signed payload of an identity, as older versions of cosign make them."""
    signature = sign(identity.key, payload)
    body = make_hashed_body(payload, base64.b64decode(signature), identity.certificate)
    entry = sigstore.record(body, at)
    log_id = base64.b64decode(entry["logId"]["keyId"]).hex()
    promised = {
        "body": entry["canonicalizedBody"],
        "integratedTime": int(entry["integratedTime"]),
        "logIndex": int(entry["logIndex"]),
        "logID": log_id,
    }
    promise = entry["inclusionPromise"]["signedEntryTimestamp"]
    return {
        SIGNATURE: signature,
        CERTIFICATE: to_pem(identity.certificate).decode(),
        ENTRY: encode({"SignedEntryTimestamp": promise, "Payload": promised}).decode(),
    }


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
        manifests = [*self.list_referrers(), {**descriptor, "artifactType": BUNDLE}]
        index = encode({"schemaVersion": 2, "manifests": manifests})
        self.store.tags[PLACE, f"referrers of {self.digest}"] = self.store.add(index, INDEX)["digest"]

    def list_referrers(self) -> list[dict[str, Any]]:
        found = self.store.tags.get((PLACE, f"referrers of {self.digest}"))
        return json.loads(self.store.blobs[found])["manifests"] if found else []

    def add_bundle(self, bundle: bytes) -> None:
        self.add_manifest(self.digest.replace(":", "-"), self.store.add(bundle, BUNDLE))

    def add_legacy(self, key: PrivateKey, payload: bytes) -> None:
        self.add_payload(payload, {SIGNATURE: sign(key, payload)})

    def add_payload(self, payload: bytes, annotations: Mapping[str, str]) -> None:
        layer = {**self.store.add(payload, PAYLOAD), "annotations": annotations}
        self.add_manifest(f"{self.digest.replace(':', '-')}.sig", layer)


def make_image() -> Image:
    """One that is not signed yet."""
    store = Store()
    return Image(store, store.add_image("team/app:1", {"a": b"1"}, compress=False)["digest"])
