"""The keys of encrypted volumes: what opens their slots, made as upstream's nodes make it."""

from collections.abc import Mapping
from dataclasses import dataclass

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.encryption_spec import KINDS

_MAX_SAME = 0.5
"""The part of a machine's UUID that may be one character: more is a firmware's placeholder."""
UNSUPPORTED: Mapping[int, str] = {
    enums.ENCRYPTION_KEY_KMS: "kms is not supported by this version (use static or nodeID)",
    enums.ENCRYPTION_KEY_TPM: "tpm is not supported by this version (use static or nodeID)",
}
"""Why a kind of key is none."""


@dataclass(frozen=True, slots=True)
class SlotKey:
    """A key with its passphrase, or why there is none."""

    spec: block_pb2.EncryptionKey
    passphrase: bytes = b""
    problem: str = ""

    def __str__(self) -> str:
        return f"slot {self.spec.slot} ({KINDS[self.spec.type]})"


def make_keys(spec: block_pb2.EncryptionSpec, volume: str, uuid: str, salt: bytes) -> list[SlotKey]:
    """The passphrases of a volume's keys; the salt is STATE's, empty while there is none."""
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
    if key.type == enums.ENCRYPTION_KEY_NODE_ID:
        problem = find_uuid_problem(uuid)
        return SlotKey(key, problem=problem) if problem else SlotKey(key, (uuid + volume).encode() + salt)
    return SlotKey(key, problem=UNSUPPORTED[key.type])


def find_uuid_problem(uuid: str) -> str:
    """Why a machine's UUID is no key; empty for a good one."""
    if not uuid:
        return "the machine has no UUID"
    if max(uuid.count(letter) for letter in set(uuid)) > len(uuid) * _MAX_SAME:
        return f"the machine's UUID {uuid} is not random (set another: talosctl meta write 0x0f UUID)"
    return ""
