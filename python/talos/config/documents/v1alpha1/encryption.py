"""``machine.systemDiskEncryption``."""

from dataclasses import dataclass

from talos.config.documents.block.encryption import PERFORMANCE_OPTIONS
from talos.config.schema import UINT64, Applies, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionKeyStatic(Section):
    """Key from a fixed passphrase."""

    passphrase: str | None = setting("the passphrase", secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionKeyNodeID(Section):
    """Key derived from the machine's identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionKeyKMS(Section):
    """Key sealed by a key management service."""

    endpoint: str = setting("URL of the service", default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionKeyTPM(Section):
    """Key sealed by the TPM."""

    check_secureboot_status_on_enroll: bool | None = setting("refuse to enroll without Secure Boot")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionKey(Section):
    """Keys of a volume."""

    static: EncryptionKeyStatic | None = setting("key from a fixed passphrase")
    node_id: EncryptionKeyNodeID | None = setting("key derived from the machine's identity", key="nodeID")
    kms: EncryptionKeyKMS | None = setting("key sealed by a key management service")
    slot: int = setting("key slot of LUKS2", default=0)
    tpm: EncryptionKeyTPM | None = setting("key sealed by the TPM")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionConfig(Section):
    """Encryption of STATE."""

    provider: str = setting("provider of the encryption", default="", applies=Applies.CREATION)
    keys: tuple[EncryptionKey, ...] = setting("keys of the volume", default=())
    cipher: str | None = setting(
        "cipher",
        allowed=("aes-xts-plain64", "xchacha12,aes-adiantum-plain64", "xchacha20,aes-adiantum-plain64"),
        applies=Applies.CREATION,
    )
    key_size: int | None = setting("bits of the key", bounds=UINT64, applies=Applies.CREATION)
    block_size: int | None = setting("bytes of a block", bounds=UINT64, applies=Applies.CREATION)
    options: tuple[str, ...] | None = setting("performance options", allowed=PERFORMANCE_OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemDiskEncryptionConfig(Section):
    """Encryption of system partitions."""

    state: EncryptionConfig | None = setting("encryption of STATE")
    ephemeral: EncryptionConfig | None = setting("encryption of EPHEMERAL")
