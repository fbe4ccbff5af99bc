"""Keyless signatures: whose, and when; that logs have them; forged ones of all kinds."""

import base64
import copy
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from tests.harness.registry import encode
from tests.harness.sigstore import (
    ISSUER,
    NOW,
    SUBJECT,
    Identity,
    Sigstore,
    make_hashed_body,
    make_path,
    make_root,
)
from tests.harness.sigstore import sign as sign_raw
from tests.unit.machined.containerd.verify.cosign import (
    BUNDLE,
    make_claim,
    make_keyless_annotations,
    make_keyless_bundle,
)

from talos.machined.containerd.verify import proof
from talos.machined.containerd.verify.program import verify
from talos.machined.containerd.verify.request import REFUSED, Request, format_requests
from talos.machined.containerd.verify.search import CERTIFICATE, ENTRY, SIGNATURE
from talos.machined.containerd.verify.signature import STATEMENT
from talos.machined.controllers.security.trusted_root import OF_SIGSTORE

DATA = Path(__file__).parents[4] / "data"
IMAGE = b'{"schemaVersion": 2}'
DIGEST = f"sha256:{hashlib.sha256(IMAGE).hexdigest()}"
SIGSTORE = Sigstore()
IDENTITY = SIGSTORE.certify()
BUNDLE_OF_IT = make_keyless_bundle(SIGSTORE, IDENTITY, DIGEST)
REQUEST = Request(
    image=IMAGE,
    data=encode(BUNDLE_OF_IT),
    where="bundle",
    issuer=ISSUER,
    subject=SUBJECT,
    trusted_root=json.dumps(SIGSTORE.trusted_root()),
)


def check(**changes: Any) -> str:
    """Why a request is refused; empty when it isn't."""
    code, reasons = verify(format_requests([replace(REQUEST, **changes)]))
    assert code == (REFUSED if reasons else 0)
    return "".join(reasons)


def check_bundle(bundle: object, **changes: Any) -> str:
    return check(data=encode(bundle), **changes)


def check_identity(identity: Identity, **changes: Any) -> str:
    return check_bundle(make_keyless_bundle(SIGSTORE, identity, DIGEST), **changes)


def test_a_bundle() -> None:
    assert check() == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"subject": "", "subject_regex": r"^[a-z]+@example\.org$"}, ""),
        ({"subject": "", "subject_regex": "example"}, ""),
        ({"subject_regex": "^robot@"}, ""),
        ({"subject_regex": "^person@"}, f"bundle: it is signed by '{SUBJECT}'"),
        ({"subject": "robot@example.or"}, f"bundle: it is signed by '{SUBJECT}'"),
        ({"subject": "", "subject_regex": r"^robot@example\.or$"}, f"bundle: it is signed by '{SUBJECT}'"),
        ({"subject": ""}, "the rule: names no subject"),
        ({"subject_regex": "["}, "the rule: subjectRegex is no pattern"),
        ({"issuer": f"{ISSUER}/"}, f"bundle: it is signed by an identity of '{ISSUER}'"),
        ({"issuer": ""}, f"bundle: it is signed by an identity of '{ISSUER}'"),
        ({"trusted_root": "{}"}, "trusted root: it is no trusted root of Sigstore"),
        ({"trusted_root": json.dumps(Sigstore().trusted_root())}, "bundle: the log of its signature is not"),
        ({"image": IMAGE + b" "}, "bundle: it is a signature of another image"),
        ({"data": b"["}, "bundle: it is no JSON"),
        ({"data": b"[" * 100_000}, "bundle: it is no JSON"),
        ({"data": bytes(1024 * 1024 + 1)}, "bundle: larger than 1048576 bytes"),
    ],
)
def test_rules(changes: dict[str, Any], reason: str) -> None:
    found = check(**changes)
    assert found.startswith(reason)
    assert bool(found) is bool(reason)
    assert "\n" not in found


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        (
            x509.UniformResourceIdentifier("https://ci.example/a/b@refs/heads/main"),
            "https://ci.example/a/b@refs/heads/main",
        ),
        (x509.OtherName(x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.7"), b"\x0c\x05robot"), "robot"),
    ],
)
def test_names_of_other_kinds(name: x509.GeneralName, subject: str) -> None:
    identity = SIGSTORE.certify(name)
    assert check_identity(identity, subject=subject) == ""
    assert f"it is signed by '{subject}'" in check_identity(identity)


def test_a_name_of_a_foreign_kind() -> None:
    identity = SIGSTORE.certify(x509.DNSName("robot"))
    assert "it is signed by no name" in check_identity(identity, subject="robot")


def test_an_issuer_in_the_older_extension() -> None:
    assert check_identity(SIGSTORE.certify(old=True)) == ""
    assert "an identity of 'https://b'" in check_identity(SIGSTORE.certify(old=True, issuer="https://b"))


def test_a_certificate_of_a_foreign_authority() -> None:
    # Its logs are trusted, and have the signature.
    foreign = Sigstore(certificate_log=SIGSTORE.certificate_log)
    assert "its certificate is not accepted" in check_identity(foreign.certify())


def test_a_certificate_that_is_an_authoritys_own() -> None:
    for authority in (SIGSTORE.root, SIGSTORE.between):
        own = Identity(key=authority.key, certificate=authority.certificate)
        assert "bundle: its certificate" in check_identity(own)


def test_a_certificate_for_something_else() -> None:
    identity = SIGSTORE.certify(purpose=ExtendedKeyUsageOID.SERVER_AUTH)
    assert "for something else than to sign code" in check_identity(identity)


def test_a_certificate_that_no_log_has_seen() -> None:
    assert "in no log of certificates" in check_identity(SIGSTORE.certify(logged=False))
    other = replace(SIGSTORE, certificate_log=Sigstore().certificate_log)
    object.__setattr__(other, "between", SIGSTORE.between)
    assert "the log of its certificate is not trusted" in check_identity(other.certify())


def test_a_timestamp_of_another_certificate() -> None:
    root = SIGSTORE.trusted_root()
    foreign = Sigstore().trusted_root()
    root["ctlogs"][0]["publicKey"] = foreign["ctlogs"][0]["publicKey"]
    assert "the timestamp of its certificate is forged" in check(trusted_root=json.dumps(root))


@pytest.mark.parametrize("late", [timedelta(minutes=11), timedelta(minutes=-1)])
def test_a_signature_outside_of_the_life_of_its_certificate(late: timedelta) -> None:
    bundle = make_keyless_bundle(SIGSTORE, IDENTITY, DIGEST, at=NOW + late)
    assert "its certificate is not accepted for 2026-03-01T1" in check_bundle(bundle)


def test_keys_count_in_their_time_only() -> None:
    for path in ("tlogs", "ctlogs", "certificateAuthorities"):
        root = SIGSTORE.trusted_root()
        (one,) = root[path]
        one.get("publicKey", one)["validFor"] = {
            "start": "2021-01-01T00:00:00Z",
            "end": "2025-12-31T00:00:00Z",
        }
        assert check(trusted_root=json.dumps(root))
        one.get("publicKey", one)["validFor"]["end"] = "2026-12-31T00:00:00.999Z"
        assert check(trusted_root=json.dumps(root)) == ""


def entry_of(bundle: dict[str, Any]) -> dict[str, Any]:
    return bundle["verificationMaterial"]["tlogEntries"][0]


def change_text(text: str) -> str:
    """Other bytes in base64."""
    data = bytearray(base64.b64decode(text))
    data[-1] ^= 1
    return base64.b64encode(data).decode()


def rename(text: str) -> str:
    """A checkpoint of another origin."""
    return f"x{text}"


def unsign(text: str) -> str:
    """A checkpoint whose signatures are none."""
    return text.replace("\u2014 ", "- ")


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Change what is at a path in the entry; a function gets what was there."""

    def apply(bundle: dict[str, Any]) -> None:
        *above, last = path.split(".")
        place = entry_of(bundle)
        for key in above:
            place = place[key]
        place[last] = value(place[last]) if callable(value) else value

    return apply


HOSTILE: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (put("inclusionPromise.signedEntryTimestamp", change_text), "its entry in the log is forged"),
    (put("inclusionPromise", None), "its time is not signed: it has no timestamp"),
    (put("inclusionPromise.signedEntryTimestamp", None), "signedEntryTimestamp is not in base64"),
    (put("integratedTime", str(int(NOW.timestamp()) + 1)), "its entry in the log is forged"),
    (put("integratedTime", "0"), "its log has promised it without a time"),
    (put("integratedTime", "9" * 18), "its entry in the log is forged"),
    (put("integratedTime", "9" * 19), "integratedTime is no number"),
    (put("integratedTime", -1), "integratedTime is no number"),
    (put("integratedTime", True), "integratedTime is no number"),
    (put("logIndex", "1"), "its entry in the log is forged"),
    (put("canonicalizedBody", change_text), "its entry in the log is forged"),
    (put("logId.keyId", change_text), "the log of its signature is not trusted"),
    (put("inclusionProof", None), "there is no proof"),
    (put("inclusionProof.logIndex", "0"), "the log's proof is of another entry"),
    (put("inclusionProof.treeSize", "3"), "the log's proof is of another entry"),
    (put("inclusionProof.treeSize", "0"), "the log's proof is of another entry"),
    (put("inclusionProof.hashes", []), "the log's proof is of another entry"),
    (put("inclusionProof.hashes", ["AA=="] * 65), "the proof of the log has 65 hashes"),
    (put("inclusionProof.hashes", [1]), "a hash of its proof is not in base64"),
    (put("inclusionProof.hashes", ["AA=="]), "a hash of its proof is not of SHA-256"),
    (put("inclusionProof.hashes", "AA=="), "the log's proof is of another entry"),
    (put("inclusionProof.checkpoint.envelope", unsign), "not signed by it"),
    (
        put("inclusionProof.checkpoint.envelope", rename),
        "the checkpoint of the log is forged",
    ),
    (put("inclusionProof.checkpoint.envelope", "\n\n"), "no signed note"),
    (put("inclusionProof.checkpoint", None), "it has no text 'envelope'"),
    (lambda bundle: bundle["verificationMaterial"].pop("tlogEntries"), "0 entries of logs"),
    (lambda bundle: bundle["verificationMaterial"]["tlogEntries"].append({}), "canonicalizedBody is not"),
    (lambda bundle: bundle["verificationMaterial"]["tlogEntries"].extend([{}] * 32), "33 entries of logs"),
    (
        lambda bundle: bundle["verificationMaterial"]["tlogEntries"].append(entry_of(bundle)),
        "a bundle with the same entry of a log twice",
    ),
    (lambda bundle: bundle["verificationMaterial"].pop("certificate"), "signed with a key"),
    (
        lambda bundle: bundle["verificationMaterial"].update(certificate={"rawBytes": "AAAA"}),
        "certificate is damaged",
    ),
    (lambda bundle: bundle["dsseEnvelope"]["signatures"][0].update(sig="AAAA"), "the key of its certificate"),
    (lambda bundle: bundle["dsseEnvelope"]["signatures"].append({}), "no statement with one signature"),
    (lambda bundle: bundle["dsseEnvelope"].update(payload="e30="), "the key of its certificate"),
]


@pytest.mark.parametrize(("change", "reason"), HOSTILE)
def test_hostile_bundles(change: Callable[[dict[str, Any]], Any], reason: str) -> None:
    bundle = copy.deepcopy(BUNDLE_OF_IT)
    change(bundle)
    found = check_bundle(bundle)
    assert reason in found
    assert "\n" not in found


def test_an_entry_of_another_signature() -> None:
    # All of it is right, and the log's; but it is another signature that the log has.
    bundle = copy.deepcopy(BUNDLE_OF_IT)
    again = make_keyless_bundle(SIGSTORE, IDENTITY, DIGEST)
    bundle["verificationMaterial"]["tlogEntries"] = again["verificationMaterial"]["tlogEntries"]
    assert "its entry in the log is of another signature" in check_bundle(bundle)
    other = make_keyless_bundle(SIGSTORE, SIGSTORE.certify(), DIGEST)
    bundle["verificationMaterial"]["tlogEntries"] = other["verificationMaterial"]["tlogEntries"]
    assert "its entry in the log is of another signature" in check_bundle(bundle)
    body = make_hashed_body(IMAGE, b"a", IDENTITY.certificate)
    bundle["verificationMaterial"]["tlogEntries"] = [SIGSTORE.record(body)]
    assert "its entry in the log is of another signature" in check_bundle(bundle)
    bundle["verificationMaterial"]["tlogEntries"] = [SIGSTORE.record({**body, "apiVersion": "0.0.3"})]
    text = "kind 'hashedrekord', version '0.0.3', not dsse or hashedrekord 0.0.1 or 0.0.2"
    assert text in check_bundle(bundle)


def test_a_bundle_of_sigstores_public_instance() -> None:
    # Of its own conformance tests, signed in May 2026; what it states of its subject is no approval.
    facts = json.loads((DATA / "images/keyless.json").read_text(encoding="utf-8"))
    payload, certificate = base64.b64decode(facts["payload"]), base64.b64decode(facts["certificate"])
    signed = b"DSSEv1 %d %s %d %s" % (len(STATEMENT), STATEMENT.encode(), len(payload), payload)
    signature = base64.b64decode(facts["signature"])
    body = make_hashed_body(signed, signature, x509.load_der_x509_certificate(certificate))
    entry = {
        "logIndex": facts["logIndex"],
        "logId": {"keyId": "wNI9atQGlz+VWfO6LRygH4QUfY/8W4RFwiT5i5WRgB0="},
        "integratedTime": facts["integratedTime"],
        "inclusionPromise": {"signedEntryTimestamp": facts["promise"]},
        "inclusionProof": {
            "logIndex": facts["proofIndex"],
            "treeSize": facts["treeSize"],
            "hashes": facts["hashes"],
            "checkpoint": {"envelope": facts["checkpoint"]},
        },
        "canonicalizedBody": base64.b64encode(json.dumps(body, separators=(",", ":")).encode()).decode(),
    }
    envelope = {
        "payload": facts["payload"],
        "payloadType": STATEMENT,
        "signatures": [{"sig": facts["signature"]}],
    }
    material = {"certificate": {"rawBytes": facts["certificate"]}, "tlogEntries": [entry]}
    bundle = {"mediaType": BUNDLE, "verificationMaterial": material, "dsseEnvelope": envelope}
    rule = {
        "issuer": "https://token.actions.githubusercontent.com",
        "subject": "",
        "subject_regex": r"^https://github\.com/sigstore-conformance/[a-z-]+/.+@refs/heads/main$",
        "trusted_root": OF_SIGSTORE.read_text(encoding="utf-8"),
    }
    assert "it states 'https://example.com/predicate/v1' of the image" in check_bundle(bundle, **rule)
    assert "it is signed by 'https://github.com/sigstore-conformance/" in check_bundle(
        bundle, **{**rule, "subject": SUBJECT}
    )
    facts["hashes"][3] = facts["hashes"][4]
    assert "the log's proof is of another entry" in check_bundle(bundle, **rule)


def test_a_signature_of_the_manifest_itself() -> None:
    bundle = copy.deepcopy(BUNDLE_OF_IT)
    signature = sign_raw(IDENTITY.key, IMAGE)
    del bundle["dsseEnvelope"]
    bundle["messageSignature"] = {"signature": base64.b64encode(signature).decode()}
    bundle["verificationMaterial"]["tlogEntries"] = [
        SIGSTORE.record(make_hashed_body(IMAGE, signature, IDENTITY.certificate))
    ]
    assert bundle["mediaType"] == BUNDLE
    assert check_bundle(bundle) == ""
    assert "the key of its certificate" in check_bundle(bundle, image=IMAGE + b" ")


PAYLOAD = make_claim(DIGEST)
ANNOTATIONS = make_keyless_annotations(SIGSTORE, IDENTITY, PAYLOAD)


def check_payload(payload: bytes = PAYLOAD, /, **changes: str) -> str:
    annotations = {**ANNOTATIONS, **changes}
    return check(
        data=payload,
        signature=annotations[SIGNATURE],
        certificate=annotations[CERTIFICATE],
        entry=annotations[ENTRY],
    )


def test_a_signed_payload() -> None:
    assert check_payload() == ""
    assert "the key of its certificate" in check_payload(make_claim(DIGEST.replace("a", "b")))
    assert "its certificate is damaged" in check_payload(**{CERTIFICATE: ""})
    assert "logID" in check_payload(**{ENTRY: ""})
    assert "it is no JSON" in check_payload(**{ENTRY: "{"})
    late = make_keyless_annotations(SIGSTORE, IDENTITY, PAYLOAD, NOW + timedelta(hours=1))
    assert "its certificate is not accepted" in check_payload(**late)
    other = make_claim(f"sha256:{'0' * 64}")
    signed = make_keyless_annotations(SIGSTORE, IDENTITY, other)
    assert "a signature of another image" in check_payload(other, **signed)
    assert "of another signature" in check_payload(**{ENTRY: signed[ENTRY]})


def test_paths_in_trees_of_all_sizes() -> None:
    for size in range(1, 18):
        leaves = [bytes([number]) for number in range(size)]
        for index, leaf in enumerate(leaves):
            path = make_path(index, leaves)
            assert proof.find_root(leaf, index, size, path) == make_root(leaves)
            assert proof.find_root(leaf, index, size, [*path, bytes(32)]) is None
            assert proof.find_root(leaf, size, size, path) is None


def test_a_request_that_is_none() -> None:
    for data in (b"", b"[]", b"{}", b'{"image": "", "signatures": [{"data": 1}]}', b"\xff"):
        assert verify(data) == (REFUSED, ["stdin: is no request"])
