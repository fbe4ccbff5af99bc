"""How a volume is encrypted: from documents to its spec, and META's copy of STATE's, in upstream's form."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.config.documents.block.encryption import MAX_PCR, MAX_SLOT, EncryptionKey, EncryptionSpec
from talos.config.documents.block.volume import VolumeConfig
from talos.config.documents.v1alpha1.encryption import EncryptionConfig
from talos.config.documents.v1alpha1.encryption import EncryptionKey as OldKey
from talos.config.model import Config
from talos.system.errors import UserError

KINDS: Mapping[int, str] = {
    enums.ENCRYPTION_KEY_STATIC: "static",
    enums.ENCRYPTION_KEY_NODE_ID: "nodeID",
    enums.ENCRYPTION_KEY_KMS: "kms",
    enums.ENCRYPTION_KEY_TPM: "tpm",
}
DEFAULT_PCRS = (7,)
"""What a key of the TPM is bound to where a config has no options for it: the state of Secure Boot."""
_PROVIDER = "luks2"
_WHERE = "META's key 0x09"


def find_system_encryption(config: Config, volume: str) -> block_pb2.EncryptionSpec | None:
    """The encryption of a system volume: its own document's, else the main document's."""
    for document in config.find_all(VolumeConfig):
        if document.name == volume and document.encryption is not None:
            return make_encryption(document.encryption)
    old = config.machine.system_disk_encryption if config.machine else None
    wanted: EncryptionConfig | None = getattr(old, volume.lower(), None)
    return make_encryption(wanted) if wanted is not None else None


def make_encryption(wanted: EncryptionSpec | EncryptionConfig) -> block_pb2.EncryptionSpec:
    """The spec of a document, its keys in the order of their slots."""
    keys = [_make_key(key) for key in wanted.keys or ()]
    return block_pb2.EncryptionSpec(
        provider=enums.ENCRYPTION_PROVIDER_LUKS2,
        keys=sorted(keys, key=lambda key: key.slot),
        cipher=wanted.cipher or "",
        key_size=wanted.key_size or 0,
        block_size=wanted.block_size or 0,
        perf_options=wanted.options or (),
        allow_discards=bool(isinstance(wanted, EncryptionSpec) and wanted.allow_discards),
    )


def _make_key(key: EncryptionKey | OldKey) -> block_pb2.EncryptionKey:
    """Of several kinds in one key the first counts, in upstream's order."""
    lock = bool(isinstance(key, EncryptionKey) and key.lock_to_state)
    made = block_pb2.EncryptionKey(slot=key.slot, lock_to_state=lock)
    if key.static is not None:
        made.type = enums.ENCRYPTION_KEY_STATIC
        made.static_passphrase = (key.static.passphrase or "").encode()
    elif key.node_id is not None:
        made.type = enums.ENCRYPTION_KEY_NODE_ID
    elif key.kms is not None:
        made.type = enums.ENCRYPTION_KEY_KMS
        made.kms_endpoint = key.kms.endpoint or ""
    elif key.tpm is not None:
        made.type = enums.ENCRYPTION_KEY_TPM
        made.tpm_check_secureboot_status_on_enroll = bool(key.tpm.check_secureboot_status_on_enroll)
        options = key.tpm.options if isinstance(key, EncryptionKey) and key.tpm else None
        made.tpmpc_rs[:] = DEFAULT_PCRS if options is None else options.pcrs or ()
    return made


def format_meta(spec: block_pb2.EncryptionSpec) -> bytes:
    """The value of META's key."""
    return json.dumps(
        {
            "EncryptionProvider": _PROVIDER,
            "EncryptionKeys": [_format_key(key) for key in spec.keys],
            "EncryptionCipher": spec.cipher,
            "EncryptionKeySize": spec.key_size,
            "EncryptionBlockSize": spec.block_size,
            "EncryptionPerfOptions": list(spec.perf_options),
            "EncryptionAllowDiscards": spec.allow_discards,
        }
    ).encode()


def _format_key(key: block_pb2.EncryptionKey) -> Mapping[str, Any]:
    found: dict[str, Any] = {"KeySlot": key.slot}
    if key.type == enums.ENCRYPTION_KEY_STATIC:
        found["KeyStatic"] = {"KeyData": key.static_passphrase.decode(errors="replace")}
    elif key.type == enums.ENCRYPTION_KEY_NODE_ID:
        found["KeyNodeID"] = {}
    elif key.type == enums.ENCRYPTION_KEY_KMS:
        found["KeyKMS"] = {"KMSEndpoint": key.kms_endpoint}
    else:
        found["KeyTPM"] = {
            "TPMOptions": {"PCRs": list(key.tpmpc_rs)},
            "TPMCheckSecurebootStatusOnEnroll": key.tpm_check_secureboot_status_on_enroll,
        }
    return found


def parse_meta(value: bytes) -> block_pb2.EncryptionSpec | None:
    """The value of META's key; None for an unencrypted STATE. UserError when it can't be read."""
    try:
        found: Any = json.loads(value)
        if found is None:
            return None
        keys = _parse_keys(found["EncryptionKeys"])
        return block_pb2.EncryptionSpec(
            provider=enums.ENCRYPTION_PROVIDER_LUKS2,
            keys=keys,
            cipher=found.get("EncryptionCipher") or "",
            key_size=found.get("EncryptionKeySize") or 0,
            block_size=found.get("EncryptionBlockSize") or 0,
            perf_options=found.get("EncryptionPerfOptions") or (),
            allow_discards=bool(found.get("EncryptionAllowDiscards")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        text = f"the encryption of STATE can't be read: {error}"
        raise UserError(text, where=_WHERE, hint="talosctl reset --system-labels-to-wipe STATE") from None


def _parse_keys(found: Iterable[Mapping[str, Any]]) -> list[block_pb2.EncryptionKey]:
    keys = [_parse_key(key) for key in found]
    if not keys:
        raise ValueError("it has no key")
    return keys


def _parse_key(found: Mapping[str, Any]) -> block_pb2.EncryptionKey:
    slot = found.get("KeySlot") or 0
    if not 0 <= slot <= MAX_SLOT:
        raise ValueError(f"it has a key in slot {slot}")
    key = block_pb2.EncryptionKey(slot=slot)
    if found.get("KeyStatic") is not None:
        key.static_passphrase = found["KeyStatic"]["KeyData"].encode()
    elif found.get("KeyNodeID") is not None:
        key.type = enums.ENCRYPTION_KEY_NODE_ID
    elif found.get("KeyKMS") is not None:
        key.type = enums.ENCRYPTION_KEY_KMS
        key.kms_endpoint = str(found["KeyKMS"].get("KMSEndpoint") or "")
    else:
        key.type = enums.ENCRYPTION_KEY_TPM
        tpm = found["KeyTPM"]
        options = tpm.get("TPMOptions")
        key.tpmpc_rs[:] = DEFAULT_PCRS if options is None else options.get("PCRs") or ()
        if not all(0 <= pcr <= MAX_PCR for pcr in key.tpmpc_rs):
            raise ValueError(f"it has the PCRs {list(key.tpmpc_rs)}")
        key.tpm_check_secureboot_status_on_enroll = bool(tpm.get("TPMCheckSecurebootStatusOnEnroll"))
    return key


def join_keys(
    wanted: block_pb2.EncryptionSpec, older: Iterable[block_pb2.EncryptionKey]
) -> block_pb2.EncryptionSpec:
    """A spec with older keys behind its own, for a volume whose slots may still have those."""
    joined = block_pb2.EncryptionSpec()
    joined.CopyFrom(wanted)
    joined.keys.extend(older)
    return joined


def list_kinds(keys: Iterable[block_pb2.EncryptionKey]) -> list[str]:
    """The kinds of keys, sorted."""
    return sorted({KINDS[key.type] for key in keys})
