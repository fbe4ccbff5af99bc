"""Signed timestamps: by whom, in what time, of which signature; those that don't count, and do no harm."""

import base64
import copy
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from tests.harness.sigstore import NOW, Identity, Sigstore, make_authority
from tests.harness.timestamps import TimestampAuthority, make_signer

from talos.machined.containerd.verify.signed import Signed
from talos.machined.containerd.verify.timestamps import Timestamps, find_timestamps
from talos.machined.containerd.verify.trusted_root import parse_trusted_root
from talos.system.errors import UserError

SIGNATURE = b"a signature"
AUTHORITY = TimestampAuthority()
EMPTY = Sigstore().trusted_root()


def find(
    *responses: bytes,
    trusted: Sequence[Mapping[str, Any]] = (AUTHORITY.trusted(),),
    signature: bytes = SIGNATURE,
) -> Timestamps:
    """What comes of timestamps in a bundle, with these authorities in the trusted root."""
    parts = [{"signedTimestamp": base64.b64encode(one).decode()} for one in responses]
    material = {"timestampVerificationData": {"rfc3161Timestamps": parts}}
    signed = Signed(data=b"", signature=signature, logged={}, material=material)
    root = parse_trusted_root(json.dumps({**EMPTY, "timestampAuthorities": [*trusted]}))
    return find_timestamps(signed, root, "bundle")


def refuse(*responses: bytes, trusted: Sequence[Mapping[str, Any]] = (AUTHORITY.trusted(),)) -> str:
    found = find(*responses, trusted=trusted)
    assert found.times == []
    return "; ".join(found.reasons)


def test_a_timestamp() -> None:
    assert find(AUTHORITY.stamp(SIGNATURE)) == Timestamps(times=[NOW], reasons=[])
    assert find() == Timestamps(times=[], reasons=[])


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512"])
@pytest.mark.parametrize("has_certificate", [True, False])
def test_forms_of_it(algorithm: str, *, has_certificate: bool) -> None:
    response = AUTHORITY.stamp(SIGNATURE, algorithm=algorithm, has_certificate=has_certificate)
    assert find(response).times == [NOW]


def test_a_trusted_root_without_the_signer() -> None:
    for between in (None, make_authority("between", AUTHORITY.root)):
        authority = TimestampAuthority(root=AUTHORITY.root, between=between)
        trusted = [authority.trusted(signer=False)]
        assert find(authority.stamp(SIGNATURE, has_certificate=True), trusted=trusted).times == [NOW]
        assert refuse(authority.stamp(SIGNATURE), trusted=trusted) == "signer certificate not found"


def test_parts_of_a_second() -> None:
    found = find(AUTHORITY.stamp(SIGNATURE, text="20260301120000.25Z"))
    assert found.times == [NOW + timedelta(milliseconds=250)]


OTHER = TimestampAuthority()
SECOND = TimestampAuthority(root=AUTHORITY.root)
SERVER, CODE = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CODE_SIGNING
STAMPS = ExtendedKeyUsageOID.TIME_STAMPING


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (b"\x30\x00", "it is damaged"),
        (AUTHORITY.stamp(SIGNATURE) + b"\0", "it is damaged"),
        (AUTHORITY.stamp(SIGNATURE)[:-1], "it is damaged"),
        (bytes(64 * 1024 + 1), "it has 65537 bytes"),
        (AUTHORITY.stamp(SIGNATURE, status=1), "it was not granted"),
        (AUTHORITY.stamp(SIGNATURE, status=2), "it was not granted"),
        (AUTHORITY.stamp(b"another"), "it is of another signature"),
        (AUTHORITY.stamp(SIGNATURE, algorithm="sha1"), "its hash is of none of sha256, sha384, sha512"),
        (AUTHORITY.stamp(SIGNATURE, text="20260301120060Z"), "it has no time"),
        (AUTHORITY.stamp(SIGNATURE, text="202603011200Z"), "it is damaged"),
        (AUTHORITY.stamp(SIGNATURE, text="20260301120000+0100"), "it has no time"),
        (AUTHORITY.stamp(SIGNATURE, has_reference=False), "missing signing certificate attribute"),
        (OTHER.stamp(SIGNATURE), "signer certificate not found"),
        (OTHER.stamp(SIGNATURE, has_certificate=True), "certificate signature failure"),
        (SECOND.stamp(SIGNATURE, has_certificate=True), "it is by another signer than the trusted root has"),
        (AUTHORITY.stamp(SIGNATURE, NOW - timedelta(days=299)), ""),
        (AUTHORITY.stamp(SIGNATURE, NOW + timedelta(days=301)), "certificate has expired"),
        (AUTHORITY.stamp(SIGNATURE, NOW - timedelta(days=301)), "certificate is not yet valid"),
    ],
)
def test_responses(response: bytes, reason: str) -> None:
    assert "; ".join(find(response).reasons) == reason


def test_a_response_that_is_forged() -> None:
    response = bytearray(AUTHORITY.stamp(SIGNATURE))
    place = response.index(b"20260301120000Z")
    response[place + 13] ^= 1
    assert refuse(bytes(response)) == "signature failure"
    response[place + 13] ^= 1
    response[-1] ^= 1
    assert refuse(bytes(response)) != ""


@pytest.mark.parametrize(
    ("signer", "reason"),
    [
        (make_signer(AUTHORITY.root, purposes=(SERVER,)), "unsuitable certificate purpose"),
        (make_signer(AUTHORITY.root, purposes=(STAMPS, CODE)), "unsuitable certificate purpose"),
        (make_signer(AUTHORITY.root, critical=False), "unsuitable certificate purpose"),
        (make_signer(AUTHORITY.root, is_authority=True), "it is by another signer than the trusted root has"),
        (make_signer(OTHER.root), "certificate signature failure"),
    ],
)
def test_signers(signer: Identity, reason: str) -> None:
    response = AUTHORITY.stamp(SIGNATURE, signer=signer, has_certificate=True)
    assert refuse(response, trusted=[AUTHORITY.trusted(signer=False)]) == reason


def test_a_signer_below_an_authority_that_the_trusted_root_lacks() -> None:
    # A certificate in the response leads to the trusted root's, whatever it was issued for.
    between = make_authority("between", AUTHORITY.root)
    chain = TimestampAuthority(root=between)
    response = chain.stamp(SIGNATURE, has_certificate=True, others=[between.certificate])
    trusted = AUTHORITY.trusted(signer=False)
    assert refuse(response, trusted=[trusted]) == "its signer is not of the authority"
    trusted["certChain"]["certificates"].insert(
        0, chain.trusted(signer=False)["certChain"]["certificates"][0]
    )
    assert find(response, trusted=[trusted]).times == [NOW]


@pytest.mark.parametrize(
    ("purposes", "reason"),
    [((STAMPS,), ""), ((SERVER,), "an authority above its signer is not for timestamps")],
)
def test_authorities_between_are_for_timestamps(purposes: tuple[Any, ...], reason: str) -> None:
    between = make_authority("between", AUTHORITY.root, purposes=purposes)
    authority = TimestampAuthority(root=AUTHORITY.root, between=between)
    found = find(authority.stamp(SIGNATURE), trusted=[authority.trusted()])
    assert "; ".join(found.reasons) == reason


def test_a_chain_that_is_the_signer_alone() -> None:
    alone = copy.deepcopy(AUTHORITY.trusted())
    del alone["certChain"]["certificates"][1:]
    response = AUTHORITY.stamp(SIGNATURE, has_certificate=True)
    assert refuse(response, trusted=[alone]) == "its signer is not of the authority"


def test_an_authority_counts_in_its_own_time_only() -> None:
    ended: dict[str, Any] = AUTHORITY.trusted()
    ended["validFor"]["end"] = "2026-03-01T11:59:59Z"
    text = "its authority was not trusted at that time"
    assert refuse(AUTHORITY.stamp(SIGNATURE), trusted=[ended]) == text
    reasons = refuse(AUTHORITY.stamp(SIGNATURE), trusted=[ended, OTHER.trusted()])
    assert reasons == f"{text}; signer certificate not found"
    assert find(AUTHORITY.stamp(SIGNATURE), trusted=[ended, AUTHORITY.trusted()]).times == [NOW]


def test_a_trusted_root_without_authorities_for_timestamps() -> None:
    assert refuse(AUTHORITY.stamp(SIGNATURE), trusted=[]) == "the trusted root has no authority for it"


def test_those_that_are_not_trusted_do_no_harm() -> None:
    later = NOW + timedelta(minutes=1)
    found = find(OTHER.stamp(SIGNATURE), b"x", AUTHORITY.stamp(SIGNATURE), AUTHORITY.stamp(SIGNATURE, later))
    assert found.times == [NOW, later]
    assert found.reasons == ["signer certificate not found", "it is damaged"]


def test_bounds() -> None:
    response = AUTHORITY.stamp(SIGNATURE)
    with pytest.raises(UserError, match="a bundle with the same timestamp twice"):
        find(response, response)
    with pytest.raises(UserError, match="a bundle with 33 timestamps"):
        find(*([response] * 33))
