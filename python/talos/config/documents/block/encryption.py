"""Encryption of volumes."""

from dataclasses import dataclass

from talos.config.schema import UINT64, Applies, Section, setting

PERFORMANCE_OPTIONS = ("no_read_workqueue", "no_write_workqueue", "same_cpu_crypt")
"""Of dm-crypt."""
MAX_SLOT = 31
"""LUKS2 has a fixed number of key slots."""
MAX_PCR = 23
"""TPM 2.0 has 24."""


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

    endpoint: str | None = setting("URL of the service")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionKeyTPMOptions(Section):
    """How the TPM seals the key."""

    pcrs: tuple[int, ...] | None = setting("PCRs the key is bound to (default: [7])")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionKeyTPM(Section):
    """Key sealed by the TPM."""

    options: EncryptionKeyTPMOptions | None = setting("how the TPM seals the key")
    check_secureboot_status_on_enroll: bool | None = setting("refuse to enroll without Secure Boot")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionKey(Section):
    """One of the keys that open a volume."""

    slot: int = setting("key slot of LUKS2", default=0)
    static: EncryptionKeyStatic | None = setting("key from a fixed passphrase")
    node_id: EncryptionKeyNodeID | None = setting("key derived from the machine's identity", key="nodeID")
    kms: EncryptionKeyKMS | None = setting("key sealed by a key management service")
    tpm: EncryptionKeyTPM | None = setting("key sealed by the TPM")
    lock_to_state: bool | None = setting("also bind the key to STATE")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionSpec(Section):
    """How a volume is encrypted."""

    provider: str | None = setting("provider of the encryption", allowed=("luks2",), applies=Applies.CREATION)
    keys: tuple[EncryptionKey, ...] | None = setting("keys of the volume")
    cipher: str | None = setting(
        "cipher",
        allowed=("aes-xts-plain64", "xchacha12,aes-adiantum-plain64", "xchacha20,aes-adiantum-plain64"),
        applies=Applies.CREATION,
    )
    key_size: int | None = setting("bits of the key", bounds=UINT64, applies=Applies.CREATION)
    block_size: int | None = setting("bytes of a block", bounds=UINT64, applies=Applies.CREATION)
    options: tuple[str, ...] | None = setting("performance options", applies=Applies.REBOOT)
    allow_discards: bool | None = setting("pass discards through (default: false)")
