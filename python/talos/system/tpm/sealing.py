"""Secrets that the TPM opens while PCRs have the values with which they were sealed.

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
from talos.system.tpm.commands import PolicyFailedError, Tpm, Transmit

MAX_BLOB = 2048
"""Bytes of one part of a sealed secret."""
_BANK = "sha256"
_VERSION = "1"

type Open = AbstractContextManager[Transmit]
"""The TPM, which is open within it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSecret:
    """A sealed secret, for one TPM. ``values`` are the PCRs' when it was sealed, or empty where unknown."""

    private: bytes
    public: bytes
    pcrs: tuple[int, ...]
    policy: bytes
    key_name: bytes
    values: Mapping[int, bytes]


def format_sealed(sealed: SealedSecret) -> bytes:
    """As the header has it, without the slots."""
    data: Mapping[str, Any] = {
        "sealed_blob_private": _encode(sealed.private),
        "sealed_blob_public": _encode(sealed.public),
        "pcrs": sealed.pcrs,
        "pubkey_pcrs": [],
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


def _parse(found: Any) -> SealedSecret:
    if found.get("pubkey_pcrs"):
        raise ValueError("it is bound to the signed PCR 11 of an image, which is not supported")
    if found["alg"] != _BANK:
        raise ValueError(f"it is bound to the bank {found['alg']!r}")
    values: Mapping[str, str] = found.get("pcr_values") or {}
    return SealedSecret(
        private=_decode(found["sealed_blob_private"]),
        public=_decode(found["sealed_blob_public"]),
        pcrs=tuple(_check_pcr(pcr) for pcr in found.get("pcrs") or ()),
        policy=_decode(found["policy_hash"]),
        key_name=_decode(found["key_name"]),
        values={_check_pcr(int(pcr)): bytes.fromhex(value) for pcr, value in values.items()},
    )


def seal(device: Open, secret: bytes, pcrs: Sequence[int]) -> bytes:
    """Seal a secret to PCRs as they are now. UserError, OSError."""
    if not pcrs:
        raise UserError("it names no PCR, so that the key would be bound to nothing (options.pcrs: [7])")
    with device as transmit:
        tpm = Tpm(transmit)
        values = _read_pcrs(tpm, pcrs)
        policy = wire.make_pcr_policy(values)
        with tpm.make_storage_key() as key:
            private, public = tpm.create(key, secret, policy)
            name = wire.sized(key.name)
    return format_sealed(
        SealedSecret(
            private=private,
            public=public,
            pcrs=tuple(sorted(values)),
            policy=policy,
            key_name=name,
            values=values,
        )
    )


def unseal(device: Open, data: bytes) -> bytes:
    """The secret that was sealed. UserError that names the PCRs which have changed, OSError."""
    sealed = parse_sealed(data)
    with device as transmit:
        tpm = Tpm(transmit)
        values = _read_pcrs(tpm, sealed.pcrs)
        with tpm.make_storage_key() as key:
            if wire.sized(key.name) != sealed.key_name:
                raise UserError("it was sealed by another TPM, or this one was cleared since")
            if wire.make_pcr_policy(values) != sealed.policy:
                raise UserError(_describe_change(sealed, values))
            try:
                return tpm.unseal(key, sealed.private, sealed.public, sealed.pcrs)
            except PolicyFailedError:
                raise UserError(_describe_change(sealed, values)) from None


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
