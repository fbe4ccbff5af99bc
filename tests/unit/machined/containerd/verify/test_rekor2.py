"""Keyless signatures in logs of Rekor 2, whose time is a signed timestamp: what counts, and what doesn't."""

import base64
import copy
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from tests.harness import rekor2, sigstore
from tests.harness.registry import encode
from tests.harness.rekor2 import HOST, Rekor2
from tests.harness.sigstore import ISSUER, NOW, SUBJECT, Sigstore
from tests.unit.machined.containerd.verify.cosign import (
    BUNDLE,
    make_keyless_bundle,
    make_rekor2_bundle,
)

from talos.machined.containerd.verify.program import verify
from talos.machined.containerd.verify.request import Request, format_requests
from talos.machined.containerd.verify.signature import STATEMENT
from talos.machined.controllers.security.trusted_root import OF_SIGSTORE

DATA = Path(__file__).parents[4] / "data"
IMAGE = b'{"schemaVersion": 2}'
DIGEST = f"sha256:{hashlib.sha256(IMAGE).hexdigest()}"
SIGSTORE, LOG = Sigstore(), Rekor2()
IDENTITY = SIGSTORE.certify()
BUNDLE_OF_IT = make_rekor2_bundle(LOG, IDENTITY, DIGEST)
SIGNATURE = base64.b64decode(BUNDLE_OF_IT["dsseEnvelope"]["signatures"][0]["sig"])
STATEMENT_OF_IT = base64.b64decode(BUNDLE_OF_IT["dsseEnvelope"]["payload"])
ROOT = LOG.trust(SIGSTORE.trusted_root())
REQUEST = Request(
    image=IMAGE, data=b"", where="bundle", issuer=ISSUER, subject=SUBJECT, trusted_root=json.dumps(ROOT)
)

type Change = Callable[[dict[str, Any]], object]


def check(bundle: object, root: object = ROOT, **changes: Any) -> str:
    """Why a bundle is refused; empty when it isn't."""
    request = replace(REQUEST, data=encode(bundle), trusted_root=json.dumps(root), **changes)
    _, reasons = verify(format_requests([request]))
    found = "".join(reasons)
    assert "\n" not in found
    return found


def entries_of(bundle: dict[str, Any]) -> list[dict[str, Any]]:
    return bundle["verificationMaterial"]["tlogEntries"]


def put(path: str, value: object) -> Change:
    """Change what is at a path in the entry."""

    def apply(bundle: dict[str, Any]) -> None:
        *above, last = path.split(".")
        place = entries_of(bundle)[0]
        for key in above:
            place = place[key]
        place[last] = value

    return apply


def record(body: Mapping[str, Any]) -> Change:
    """Another entry, which the log has."""

    def apply(bundle: dict[str, Any]) -> None:
        entries_of(bundle)[0] = LOG.record(body)

    return apply


def test_a_bundle() -> None:
    assert check(BUNDLE_OF_IT) == ""
    assert "a signature of another image" in check(BUNDLE_OF_IT, image=IMAGE + b" ")
    assert f"it is signed by '{SUBJECT}'" in check(BUNDLE_OF_IT, subject="other@example.org")


def test_a_log_with_a_key_for_ecdsa() -> None:
    log = Rekor2(key=sigstore.make_key())
    bundle = make_rekor2_bundle(log, IDENTITY, DIGEST)
    assert check(bundle, log.trust(SIGSTORE.trusted_root())) == ""
    assert "the log of its signature is not trusted" in check(bundle)


def test_a_signature_of_the_manifest_itself() -> None:
    signature = sigstore.sign(IDENTITY.key, IMAGE)
    entry = LOG.record(rekor2.make_hashed_body(IMAGE, signature, IDENTITY.certificate))
    material = BUNDLE_OF_IT["verificationMaterial"] | {
        "tlogEntries": [entry],
        "timestampVerificationData": LOG.make_timestamps(signature),
    }
    message = {"signature": base64.b64encode(signature).decode()}
    bundle = {"mediaType": BUNDLE, "verificationMaterial": material, "messageSignature": message}
    assert check(bundle) == ""
    assert "the key of its certificate" in check(bundle, image=IMAGE + b" ")


def test_a_checkpoint_with_the_signature_of_a_witness() -> None:
    bundle = copy.deepcopy(BUNDLE_OF_IT)
    entries_of(bundle)[0] = LOG.record(
        rekor2.make_dsse_body(STATEMENT_OF_IT, SIGNATURE, IDENTITY.certificate)
    )
    note = LOG.make_checkpoint(witness="\u2014 witness.example AAAAAAAA\n")
    put("inclusionProof.checkpoint.envelope", note)(bundle)
    assert check(bundle) == ""


@pytest.mark.parametrize("key", ["logIndex", "treeSize", "rootHash"])
def test_what_a_proof_repeats_does_not_count(key: str) -> None:
    bundle = copy.deepcopy(BUNDLE_OF_IT)
    put(f"inclusionProof.{key}", "0")(bundle)
    assert check(bundle) == ""


OTHER = SIGSTORE.certify()
FOREIGN = Rekor2(leaves=LOG.leaves)
HOSTILE: list[tuple[Change, str]] = [
    (
        lambda bundle: bundle["verificationMaterial"].pop("timestampVerificationData"),
        "its time is not signed",
    ),
    (put("inclusionProof", None), "there is no proof that the log has it"),
    (put("inclusionProof.hashes", []), "the log's proof is of another entry"),
    (lambda bundle: entries_of(bundle)[0]["inclusionProof"]["hashes"].pop(), "proof is of another entry"),
    (put("logIndex", "0"), "the log's proof is of another entry"),
    (put("inclusionPromise", {"signedEntryTimestamp": "AAAA"}), "its log has promised it without a time"),
    (put("integratedTime", str(int(NOW.timestamp()) - 3600)), "its certificate is not accepted"),
    (put("inclusionProof.checkpoint.envelope", FOREIGN.make_checkpoint()), "is not signed by it"),
    (put("inclusionProof.checkpoint.envelope", Rekor2().make_checkpoint()), "proof is of another entry"),
    (put("inclusionProof.checkpoint.envelope", "\n\n"), "the checkpoint of the log is no signed note"),
    (record(rekor2.make_dsse_body(b"{}", SIGNATURE, IDENTITY.certificate)), "of another signature"),
    (record(rekor2.make_dsse_body(STATEMENT_OF_IT, b"x", IDENTITY.certificate)), "of another signature"),
    (record(rekor2.make_dsse_body(STATEMENT_OF_IT, SIGNATURE, OTHER.certificate)), "of another signature"),
    (record(rekor2.make_hashed_body(IMAGE, SIGNATURE, IDENTITY.certificate)), "of another signature"),
    (
        record(
            sigstore.make_dsse_body(STATEMENT_OF_IT, SIGNATURE, IDENTITY.certificate)
            | {"apiVersion": "0.0.2"}
        ),
        "the certificate in the log is not in base64",
    ),
    (
        record({"apiVersion": "0.0.2", "kind": "intoto", "spec": {}}),
        "kind 'intoto', version '0.0.2', not dsse or hashedrekord 0.0.1 or 0.0.2",
    ),
]


@pytest.mark.parametrize(("change", "reason"), HOSTILE)
def test_hostile_bundles(change: Change, reason: str) -> None:
    bundle = copy.deepcopy(BUNDLE_OF_IT)
    change(bundle)
    assert reason in check(bundle)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({"origin": "other.example"}, f"the checkpoint is of the log 'other.example', not of '{HOST}'"),
        ({"name": "other.example"}, "the checkpoint of the log is not signed by it"),
        ({"origin": f"{HOST}/path"}, f"the checkpoint is of the log '{HOST}/path', not of"),
    ],
)
def test_checkpoints_of_other_logs(names: dict[str, str], reason: str) -> None:
    # Signed with the right key: a log is what its checkpoints name it.
    bundle = copy.deepcopy(BUNDLE_OF_IT)
    entries_of(bundle)[0] = LOG.record(
        rekor2.make_dsse_body(STATEMENT_OF_IT, SIGNATURE, IDENTITY.certificate)
    )
    put("inclusionProof.checkpoint.envelope", LOG.make_checkpoint(**names))(bundle)
    assert reason in check(bundle)


def test_a_checkpoint_signed_with_another_key() -> None:
    log = Rekor2()
    bundle = make_rekor2_bundle(log, IDENTITY, DIGEST)
    root = log.trust(SIGSTORE.trusted_root())
    root["tlogs"][-1]["publicKey"]["rawBytes"] = ROOT["tlogs"][-1]["publicKey"]["rawBytes"]
    assert "the checkpoint of the log is not signed by it" in check(bundle, root)
    signature = log.sign(b"something else")
    note, _, line = entries_of(bundle)[0]["inclusionProof"]["checkpoint"]["envelope"].rpartition(" ")
    hint = base64.b64decode(line)[:4]
    put("inclusionProof.checkpoint.envelope", f"{note} {base64.b64encode(hint + signature).decode()}\n")(
        bundle
    )
    assert "the checkpoint of the log is forged" in check(bundle, log.trust(SIGSTORE.trusted_root()))


@pytest.mark.parametrize("url", [None, "", "https://[", "https://other.example"])
def test_a_log_whose_host_the_trusted_root_lacks(url: str | None) -> None:
    root = copy.deepcopy(ROOT)
    root["tlogs"][-1]["baseUrl"] = url
    assert "the checkpoint is of the log" in check(BUNDLE_OF_IT, root)


def test_logs_and_authorities_count_in_their_time_only() -> None:
    for path in ("tlogs", "timestampAuthorities"):
        root = copy.deepcopy(ROOT)
        one = root[path][-1]
        part = one.get("publicKey", one)
        part["validFor"] = {"start": "2021-01-01T00:00:00Z", "end": "2026-03-01T11:59:59Z"}
        assert "was not trusted at that time" in check(BUNDLE_OF_IT, root)
        part["validFor"]["end"] = "2026-03-01T12:00:00Z"
        assert check(BUNDLE_OF_IT, root) == ""
        part["validFor"]["start"] = "2026-03-01T12:00:01Z"
        assert "was not trusted at that time" in check(BUNDLE_OF_IT, root)


@pytest.mark.parametrize("late", [timedelta(minutes=11), timedelta(minutes=-1)])
def test_a_timestamp_outside_of_the_life_of_the_certificate(late: timedelta) -> None:
    bundle = make_rekor2_bundle(LOG, IDENTITY, DIGEST, at=NOW + late)
    assert "its certificate is not accepted for 2026-03-01T1" in check(bundle)


def test_an_entry_in_each_of_two_logs() -> None:
    first = make_keyless_bundle(SIGSTORE, IDENTITY, DIGEST)
    bundle = copy.deepcopy(BUNDLE_OF_IT)
    body = sigstore.make_dsse_body(STATEMENT_OF_IT, SIGNATURE, IDENTITY.certificate)
    entries_of(bundle).append(SIGSTORE.record(body))
    assert check(bundle) == ""
    # Either time is enough, and a log that is not trusted does no harm.
    assert check(bundle, SIGSTORE.trusted_root()) == ""
    del bundle["verificationMaterial"]["timestampVerificationData"]
    assert check(bundle) == ""
    # What a trusted log has of something else does.
    entries_of(bundle)[1] = entries_of(first)[0]
    assert "its entry in the log is of another signature" in check(bundle)


def test_a_bundle_of_sigstores_own() -> None:
    # Of the conformance tests, signed in July 2025 with its staging instance; what it states is no approval.
    facts = json.loads((DATA / "images/rekor2.json").read_text(encoding="utf-8"))
    certificate = x509.load_der_x509_certificate(base64.b64decode(facts["certificate"]))
    payload, signature = base64.b64decode(facts["payload"]), base64.b64decode(facts["signature"])
    body = rekor2.make_dsse_body(payload, signature, certificate)
    entry = {
        "logIndex": facts["logIndex"],
        "logId": facts["trustedRoot"]["tlogs"][0]["logId"],
        "inclusionProof": {"hashes": facts["hashes"], "checkpoint": {"envelope": facts["checkpoint"]}},
        "canonicalizedBody": base64.b64encode(
            json.dumps(body, separators=(",", ":"), sort_keys=True).encode()
        ).decode(),
    }
    bundle = {
        "mediaType": BUNDLE,
        "verificationMaterial": {
            "certificate": {"rawBytes": facts["certificate"]},
            "tlogEntries": [entry],
            "timestampVerificationData": {"rfc3161Timestamps": [{"signedTimestamp": facts["timestamp"]}]},
        },
        "dsseEnvelope": {
            "payload": facts["payload"],
            "payloadType": STATEMENT,
            "signatures": [{"sig": facts["signature"]}],
        },
    }
    rule = {
        "issuer": "https://token.actions.githubusercontent.com",
        "subject": "",
        "subject_regex": r"^https://github\.com/sigstore-conformance/[a-z-]+/.+@refs/heads/main$",
    }
    found = check(bundle, facts["trustedRoot"], **rule)
    assert "it states 'https://slsa.dev/provenance/v1' of the image" in found
    entry["logIndex"] = "7130"
    assert "the log's proof is of another entry" in check(bundle, facts["trustedRoot"], **rule)


def test_the_public_instance_has_what_rekor_2_takes() -> None:
    root = json.loads(OF_SIGSTORE.read_text(encoding="utf-8"))
    hosts = [log["baseUrl"] for log in root["tlogs"] if log["publicKey"]["keyDetails"] == "PKIX_ED25519"]
    assert hosts
    assert root["timestampAuthorities"]
