"""Secrets that the TPM opens while PCRs have the values with which they were sealed.

Where the image has a signed policy of PCR 11, they are bound to its key as well: an image opens them whose
value of PCR 11 that key has signed.

A sealed secret is kept as the JSON that upstream's nodes have in the header of a volume. ``pcr_values`` in it
is our own: which PCR has changed is known by that. Nothing of it is secret.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from talos.system.errors import UserError
from talos.system.tpm import wire
from talos.system.tpm.commands import LoadedKey, PolicyFailedError, SignedPcr, Tpm, Transmit
from talos.system.tpm.signed_policy import ImagePolicy
from talos.system.tpm.uki import PCR

MAX_BLOB = 2048
"""Bytes of one part of a sealed secret."""
_BANK = "sha256"
_VERSION = "1"
_BEFORE_VERSIONS = (7,)
"""The PCRs of upstream's secrets before 1.12, which have no version: they name that of the signed policy."""

type Open = AbstractContextManager[Transmit]
"""The TPM, which is open within it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSecret:
    """A sealed secret, for one TPM. ``values`` are the PCRs' when it was sealed, or empty where unknown.

    ``is_signed``: it is bound to a signed policy of PCR 11, besides ``pcrs``.
    """

    private: bytes
    public: bytes
    pcrs: tuple[int, ...]
    policy: bytes
    key_name: bytes
    values: Mapping[int, bytes]
    is_signed: bool = False


def format_sealed(sealed: SealedSecret) -> bytes:
    """As the header has it, without the slots."""
    data: Mapping[str, Any] = {
        "sealed_blob_private": _encode(sealed.private),
        "sealed_blob_public": _encode(sealed.public),
        **({"pcrs": sealed.pcrs} if sealed.pcrs else {}),
        "pubkey_pcrs": [PCR] if sealed.is_signed else [],
        "alg": _BANK,
        "encryption_version": _VERSION,
        "policy_hash": _encode(sealed.policy),
        "key_name": _encode(sealed.key_name),
        "pcr_values": {str(pcr): value.hex() for pcr, value in sealed.values.items()},
    }
    return json.dumps(data).encode()


def parse_sealed(data: bytes) -> SealedSecret:
    """What the header has, which anyone may have written who held the disk. UserError."""
    try:
        return _parse(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"the sealed key in the header can't be read: {error}") from None


def has_signed_policy(data: bytes) -> bool:
    """Whether what the header has is bound to a signed policy of PCR 11."""
    try:
        return parse_sealed(data).is_signed
    except UserError:
        return False


def find_value(data: bytes, pcr: int) -> bytes | None:
    """The value of a PCR that what the header has is bound to; None where it is not, or not known."""
    try:
        return parse_sealed(data).values.get(pcr)
    except UserError:
        return None


def _parse(found: Any) -> SealedSecret:
    signed: list[object] = found.get("pubkey_pcrs") or []
    pcrs: Sequence[object] = found.get("pcrs") or ()
    if "encryption_version" not in found and (signed, pcrs) == ([], [PCR]):
        signed, pcrs = [PCR], _BEFORE_VERSIONS
    if signed not in ([], [PCR]):
        raise ValueError(f"it is bound to a signed policy of the PCRs {signed}")
    if found["alg"] != _BANK:
        raise ValueError(f"it is bound to the bank {found['alg']!r}")
    values: Mapping[str, str] = found.get("pcr_values") or {}
    return SealedSecret(
        private=_decode(found["sealed_blob_private"]),
        public=_decode(found["sealed_blob_public"]),
        pcrs=tuple(map(_check_pcr, pcrs)),
        policy=_decode(found["policy_hash"]),
        key_name=_decode(found["key_name"]),
        values={_check_pcr(int(pcr)): bytes.fromhex(value) for pcr, value in values.items()},
        is_signed=bool(signed),
    )


def seal(device: Open, secret: bytes, pcrs: Sequence[int], image: ImagePolicy | None = None) -> bytes:
    """Seal a secret to PCRs as they are now, and to the key of the image. UserError, OSError."""
    if not pcrs and image is None:
        raise UserError(
            "it names no PCR, and this image has no signed policy of PCR 11, "
            "so that the key would be bound to nothing (options.pcrs: [7])"
        )
    with device as transmit:
        tpm = Tpm(transmit)
        values = _read_pcrs(tpm, pcrs)
        with tpm.make_storage_key() as key:
            return _seal(tpm, key, secret, values, image)


def _seal(
    tpm: Tpm, key: LoadedKey, secret: bytes, values: Mapping[int, bytes], image: ImagePolicy | None
) -> bytes:
    policy = make_policy(values, image)
    private, public = tpm.create(key, secret, policy)
    return format_sealed(
        SealedSecret(
            private=private,
            public=public,
            pcrs=tuple(sorted(values)),
            policy=policy,
            key_name=wire.sized(key.name),
            values=values,
            is_signed=image is not None,
        )
    )


def seal_for_values(
    device: Open,
    secret: bytes,
    data: bytes,
    pcr: int,
    values: Sequence[bytes],
    image: ImagePolicy | None = None,
) -> Sequence[bytes]:
    """Seal a secret as it was in ``data``, for each of these values that one of its PCRs will have.

    The other PCRs keep their values, and the image its key. UserError unless ``data`` opens now, OSError.
    """
    sealed = parse_sealed(data)
    image = image if sealed.is_signed else None
    with device as transmit:
        tpm = Tpm(transmit)
        present = _read_pcrs(tpm, sealed.pcrs)
        if make_policy(present, image) != sealed.policy:
            raise UserError(_describe_change(sealed, present))
        with tpm.make_storage_key() as key:
            return [_seal(tpm, key, secret, {**present, pcr: value}, image) for value in values]


def unseal(device: Open, data: bytes, image: ImagePolicy | None = None) -> bytes:
    """The secret that was sealed. UserError that names the PCRs which have changed, OSError."""
    sealed = parse_sealed(data)
    if not sealed.is_signed:
        image = None
    elif image is None:
        raise UserError("it is bound to a signed policy of PCR 11, and this image has none")
    with device as transmit:
        tpm = Tpm(transmit)
        values = _read_pcrs(tpm, sealed.pcrs)
        with tpm.make_storage_key() as key:
            if wire.sized(key.name) != sealed.key_name:
                raise UserError("it was sealed by another TPM, or this one was cleared since")
            if make_policy(values, image) != sealed.policy:
                raise UserError(_describe_change(sealed, values))
            signed = None if image is None else find_signed(image, _read_pcrs(tpm, [PCR])[PCR])
            try:
                return tpm.unseal(key, sealed.private, sealed.public, sealed.pcrs, signed)
            except PolicyFailedError:
                raise UserError(_describe_change(sealed, values)) from None


def make_policy(values: Mapping[int, bytes], image: ImagePolicy | None) -> bytes:
    """The policy of what is sealed to PCRs with these values, and to an image's key."""
    policy = bytes(wire.HASH_SIZE) if image is None else wire.make_authorized_policy(image.key.name)
    return wire.make_pcr_policy(values, policy) if values else policy


def find_signed(image: ImagePolicy, value: bytes) -> SignedPcr:
    """The signature of a value of PCR 11. UserError."""
    found = image.find(value)
    if found is None:
        raise UserError(f"PCR {PCR} has a value that the image's key has not signed")
    return SignedPcr(pcr=PCR, policy=found.policy, public=image.key.public, signature=found.signature)


def _read_pcrs(tpm: Tpm, pcrs: Sequence[int]) -> Mapping[int, bytes]:
    values = tpm.read_pcrs(pcrs)
    for pcr, value in values.items():
        for byte in (0x00, 0xFF):
            if value == bytes([byte]) * wire.HASH_SIZE:
                raise UserError(f"PCR {pcr} is all 0x{byte:02x}: nothing was measured into it")
    return values


def _describe_change(sealed: SealedSecret, values: Mapping[int, bytes]) -> str:
    changed = [str(pcr) for pcr, value in values.items() if value != sealed.values.get(pcr, value)]
    if len(changed) == 1:
        return f"PCR {changed[0]} has changed since the key was sealed"
    if changed:
        return f"PCRs {', '.join(changed)} have changed since the key was sealed"
    if sealed.is_signed and (sealed.values or not sealed.pcrs):
        return f"it is bound to another key of signed policies of PCR {PCR} than that of this image"
    return f"of the PCRs {', '.join(map(str, sealed.pcrs))} some have changed since the key was sealed"


def _check_pcr(pcr: object) -> int:
    if not isinstance(pcr, int) or not 0 <= pcr < wire.PCRS:
        raise ValueError(f"there is no PCR {pcr}")
    return pcr


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: str) -> bytes:
    data = base64.b64decode(text, validate=True)
    if len(data) > MAX_BLOB:
        raise ValueError(f"a part has {len(data)} bytes")
    return data
