"""The keys of encrypted volumes: what opens their slots, made as upstream's nodes make it."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.encryption_spec import KINDS
from talos.system.block.luks_header import LuksHeader
from talos.system.errors import UserError

_MAX_SAME = 0.5
"""The part of a machine's UUID that may be one character: more is a firmware's placeholder."""


class KeyPendingError(UserError):
    """A key is being requested; the volume is to be tried again when there is an answer."""


class SealedKeys(Protocol):
    """The keys of one volume that a service in the network seals, or the TPM. None of this waits for them."""

    def unseal(self, key: block_pb2.EncryptionKey, sealed: bytes) -> bytes:
        """The bytes that were sealed. KeyPendingError, UserError when the service does not answer, or no."""
        ...

    def seal(self, key: block_pb2.EncryptionKey) -> tuple[bytes, bytes]:
        """New random bytes, and what they are sealed to. KeyPendingError, UserError."""
        ...

    def reject(self, key: block_pb2.EncryptionKey, sealed: bytes) -> None:
        """What was unsealed opens nothing: request it anew, later."""
        ...

    def forget(self) -> None:
        """Forget all answers: they were used."""
        ...


@dataclass(frozen=True, slots=True)
class SlotKey:
    """A key with its passphrase, or why there is none. ``salt`` ends the passphrase of a sealed one."""

    spec: block_pb2.EncryptionKey
    passphrase: bytes = b""
    problem: str = ""
    salt: bytes = b""
    sealed: bytes = b""

    def __str__(self) -> str:
        return f"slot {self.spec.slot} ({KINDS[self.spec.type]})"

    @property
    def is_sealed(self) -> bool:
        """Whether its passphrase is random, and sealed by a service in the network or the TPM."""
        return self.spec.type == enums.ENCRYPTION_KEY_KMS or self.is_of_tpm

    @property
    def is_of_tpm(self) -> bool:
        """Whether the TPM seals its passphrase."""
        return self.spec.type == enums.ENCRYPTION_KEY_TPM

    def list_sealed(self, header: LuksHeader) -> Sequence[bytes]:
        """What its slot has sealed, of its kind; a key of the TPM also for starts to come."""
        if self.is_of_tpm:
            return header.list_sealed_by_tpm(self.spec.slot)
        return [header.sealed[self.spec.slot]] if self.spec.slot in header.sealed else []

    def complete(self, secret: bytes, sealed: bytes) -> "SlotKey":
        """With what the service has sealed."""
        return replace(self, passphrase=base64.b64encode(secret) + self.salt, sealed=sealed)


def make_keys(spec: block_pb2.EncryptionSpec, volume: str, uuid: str, salt: bytes) -> list[SlotKey]:
    """The keys of a volume, sealed ones without passphrase. The salt is STATE's, or empty."""
    return [_make_key(key, volume, uuid, salt) for key in spec.keys]


def _make_key(key: block_pb2.EncryptionKey, volume: str, uuid: str, salt: bytes) -> SlotKey:
    if not key.lock_to_state:
        salt = b""
    elif not salt:
        return SlotKey(key, problem="the salt of STATE, which the key is locked to, is not there")
    if key.type == enums.ENCRYPTION_KEY_STATIC:
        if not key.static_passphrase:
            return SlotKey(key, problem="the passphrase is empty")
        return SlotKey(key, key.static_passphrase + salt)
    if key.type == enums.ENCRYPTION_KEY_TPM:
        return SlotKey(key, salt=salt)
    if problem := find_uuid_problem(uuid):
        return SlotKey(key, problem=problem)
    if key.type == enums.ENCRYPTION_KEY_KMS:
        return SlotKey(key, salt=salt)
    return SlotKey(key, (uuid + volume).encode() + salt)


def find_uuid_problem(uuid: str) -> str:
    """Why a machine's UUID is no key; empty for a good one."""
    if not uuid:
        return "the machine has no UUID"
    if max(uuid.count(letter) for letter in set(uuid)) > len(uuid) * _MAX_SAME:
        return f"the machine's UUID {uuid} is not random (set another: talosctl meta write 0x0f UUID)"
    return ""
