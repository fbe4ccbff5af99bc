"""Values of PCR 11 that the owner of an image has signed, as JSON in systemd-measure's form.

    {"sha256": [{"pcrs": [11], "pkfp": "…", "pol": "…", "sig": "…"}]}

``pol`` is the policy that TPM2_PolicyPCR makes of the value, ``sig`` the key's signature of it (RSASSA,
PKCS #1 v1.5, SHA-256) in base64, ``pkfp`` the SHA-256 of the public key (PKCS #1 in DER).
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from talos.system.errors import UserError
from talos.system.tpm import wire
from talos.system.tpm.uki import PCR

KEY_BITS = 2048
"""TPMs need not take others (TCG PC Client Platform TPM Profile)."""
MAX_KEY, MAX_SIGNATURES = 4096, 64 << 10
"""Bytes of a public key in PEM, and of the signatures of an image."""
_BANK = "sha256"
_EXPONENT = 65537


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySignature:
    """A policy that a key has signed. ``fingerprint`` is the key's."""

    fingerprint: bytes
    policy: bytes
    signature: bytes


class PolicySigner(Protocol):
    """A key that signs policies; ``talos.pki.signer`` has them."""

    @property
    def public(self) -> object:
        """Its public half."""
        ...

    def sign(self, data: bytes) -> bytes:
        """A signature: RSASSA, PKCS #1 v1.5, SHA-256."""
        ...


@dataclass(frozen=True, slots=True)
class PolicyKey:
    """The public key of who signs policies."""

    key: RSAPublicKey

    @property
    def fingerprint(self) -> bytes:
        """As the signatures have it."""
        return hashlib.sha256(self.key.public_bytes(Encoding.DER, PublicFormat.PKCS1)).digest()

    @property
    def public(self) -> bytes:
        """The TPMT_PUBLIC."""
        return wire.make_rsa_public(self.key.public_numbers().n.to_bytes(KEY_BITS // 8))

    @property
    def name(self) -> bytes:
        """The Name, to which something is sealed."""
        return wire.name_of(self.public)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePolicy:
    """What a UKI has: the key and its signatures."""

    key: PolicyKey
    signatures: Sequence[PolicySignature]

    def find(self, value: bytes) -> PolicySignature | None:
        """The key's signature of a value of PCR 11, verified; None without one."""
        policy, fingerprint = wire.make_pcr_policy({PCR: value}), self.key.fingerprint
        for found in self.signatures:
            if (found.policy, found.fingerprint) == (policy, fingerprint):
                try:
                    self.key.key.verify(found.signature, policy, PKCS1v15(), SHA256())
                except InvalidSignature:
                    continue
                return found
        return None


def parse_image_policy(key: bytes, signatures: bytes, where: str) -> ImagePolicy:
    """What two sections of a UKI have. UserError that begins with ``where``."""
    try:
        return ImagePolicy(key=_parse_key(key), signatures=_parse_signatures(json.loads(signatures)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UnsupportedAlgorithm) as error:
        raise UserError(f"the signed policy of PCR 11 can't be read: {error}", where=where) from None


def check_key(key: object) -> RSAPublicKey:
    """A public key that TPMs take; ValueError."""
    if not isinstance(key, RSAPublicKey) or key.key_size != KEY_BITS or key.public_numbers().e != _EXPONENT:
        raise ValueError(f"TPMs take RSA keys of {KEY_BITS} bits only")
    return key


def sign_values(signer: PolicySigner, values: Sequence[bytes]) -> bytes:
    """The JSON for values of PCR 11. ValueError for a key that TPMs don't take."""
    fingerprint = PolicyKey(check_key(signer.public)).fingerprint
    rows: list[dict[str, Any]] = []
    for value in values:
        policy = wire.make_pcr_policy({PCR: value})
        signature = base64.b64encode(signer.sign(policy)).decode()
        rows.append({"pcrs": [PCR], "pkfp": fingerprint.hex(), "pol": policy.hex(), "sig": signature})
    return json.dumps({_BANK: rows}).encode()


def _parse_key(pem: bytes) -> PolicyKey:
    if len(pem) > MAX_KEY or not pem.startswith(b"-----BEGIN PUBLIC KEY-----"):
        raise ValueError("its key is none in PEM")
    return PolicyKey(check_key(load_pem_public_key(pem)))


def _parse_signatures(found: Any) -> Sequence[PolicySignature]:
    return [
        PolicySignature(
            fingerprint=bytes.fromhex(row["pkfp"]),
            policy=bytes.fromhex(row["pol"]),
            signature=base64.b64decode(row["sig"], validate=True),
        )
        for row in found.get(_BANK) or ()
        if row["pcrs"] == [PCR]
    ]
