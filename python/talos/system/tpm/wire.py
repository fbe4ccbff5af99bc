"""Structures of TPM 2.0 as bytes, and the constants that are used of them.

Names and values are those of the TCG's "Trusted Platform Module Library", revision 1.59, part 2.
"""

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence

from talos.system.errors import UserError

WHERE = "the TPM"

NO_SESSIONS, SESSIONS = 0x8001, 0x8002
"""TPM_ST: what a command and a response begin with."""

CREATE_PRIMARY, CREATE, LOAD, UNSEAL = 0x131, 0x153, 0x157, 0x15E
FLUSH_CONTEXT, START_AUTH_SESSION, PCR_READ, POLICY_PCR = 0x165, 0x176, 0x17E, 0x17F
LOAD_EXTERNAL, POLICY_AUTHORIZE, VERIFY_SIGNATURE, PCR_EXTEND = 0x167, 0x16A, 0x177, 0x182
"""TPM_CC."""

OWNER, NO_HANDLE, PASSWORD_SESSION = 0x40000001, 0x40000007, 0x40000009
"""TPM_RH and TPM_RS."""

KEYED_HASH, ECC, AES, SHA256, NULL, CFB = 0x0008, 0x0023, 0x0006, 0x000B, 0x0010, 0x0043
RSA, RSASSA = 0x0001, 0x0014
"""TPM_ALG."""
NIST_P256 = 0x0003
"""TPM_ECC."""

HMAC_SESSION, POLICY_SESSION = 0x00, 0x01
"""TPM_SE."""
CONTINUE, DECRYPT, ENCRYPT = 0x01, 0x20, 0x40
"""TPMA_SESSION: the session stays; the first parameter of the command, of the response is encrypted."""

FIXED_TPM, FIXED_PARENT, SENSITIVE_DATA_ORIGIN, USER_WITH_AUTH = 0x2, 0x10, 0x20, 0x40
NO_DA, RESTRICTED, DECRYPTS, SIGNS = 0x400, 0x10000, 0x20000, 0x40000
"""TPMA_OBJECT."""

PCRS = 24
HASH_SIZE = 32
"""Bytes of a SHA-256."""


class Reader:
    """Reads one structure after the other. UserError when the data end before."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def take(self, size: int) -> bytes:
        """So many bytes."""
        found = self._data[self._place : self._place + size]
        if len(found) != size:
            raise UserError(f"a structure ends after {len(self._data)} bytes", where=WHERE)
        self._place += size
        return found

    def number(self, form: str) -> int:
        """A number of one of struct's formats: B, H, I."""
        (found,) = struct.unpack(f">{form}", self.take(struct.calcsize(f">{form}")))
        return int(found)

    def sized(self) -> bytes:
        """The content of a TPM2B."""
        return self.take(self.number("H"))

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._data) - self._place)


def sized(data: bytes) -> bytes:
    """A TPM2B."""
    return struct.pack(">H", len(data)) + data


def unsized(data: bytes) -> bytes:
    """The content of a TPM2B with nothing after it. UserError."""
    reader = Reader(data)
    content = reader.sized()
    if reader.rest():
        raise UserError("something follows a structure", where=WHERE)
    return content


def select_pcrs(pcrs: Iterable[int]) -> bytes:
    """A TPML_PCR_SELECTION of the SHA-256 bank."""
    bits = sum(1 << pcr for pcr in set(pcrs))
    return struct.pack(">IHB", 1, SHA256, PCRS // 8) + bits.to_bytes(PCRS // 8, "little")


def parse_selection(reader: Reader) -> Sequence[int]:
    """The PCRs of the SHA-256 bank in a TPML_PCR_SELECTION."""
    found: list[int] = []
    for _ in range(reader.number("I")):
        bank, bits = reader.number("H"), reader.take(reader.number("B"))
        if bank == SHA256:
            found += [pcr for pcr in range(8 * len(bits)) if bits[pcr // 8] >> pcr % 8 & 1]
    return found


def make_storage_template() -> bytes:
    """The TPMT_PUBLIC of the storage root key: the ECC template of the TCG's "EK Credential Profile"."""
    attributes = (
        FIXED_TPM | FIXED_PARENT | SENSITIVE_DATA_ORIGIN | USER_WITH_AUTH | NO_DA | RESTRICTED | DECRYPTS
    )
    return (
        struct.pack(">HHI", ECC, SHA256, attributes)
        + sized(b"")
        + struct.pack(">HHH", AES, 128, CFB)
        + struct.pack(">HHH", NULL, NIST_P256, NULL)
        + 2 * sized(bytes(32))
    )


def parse_ecc_point(public: bytes) -> tuple[bytes, bytes]:
    """The point of a storage root key's TPMT_PUBLIC, which differs from the template in nothing else."""
    template = make_storage_template()
    size = len(template) - 2 * len(sized(bytes(32)))
    if public[:size] != template[:size]:
        raise UserError("its storage root key is of another kind", where=WHERE)
    reader = Reader(public[size:])
    return reader.sized().rjust(32, b"\0"), reader.sized().rjust(32, b"\0")


def make_sealed_template(policy: bytes) -> bytes:
    """The TPMT_PUBLIC of sealed data that nothing but a policy opens."""
    attributes = FIXED_TPM | FIXED_PARENT | NO_DA
    return (
        struct.pack(">HHI", KEYED_HASH, SHA256, attributes)
        + sized(policy)
        + struct.pack(">H", NULL)
        + sized(b"")
    )


def make_rsa_public(modulus: bytes) -> bytes:
    """The TPMT_PUBLIC of another's RSA key with the usual exponent, as upstream and systemd have it.

    Its Name is in the policy of what is sealed, so each byte of it counts.
    """
    return (
        struct.pack(">HHI", RSA, SHA256, USER_WITH_AUTH | DECRYPTS | SIGNS)
        + sized(b"")
        + struct.pack(">HHHI", NULL, NULL, 8 * len(modulus), 0)
        + sized(modulus)
    )


def name_of(public: bytes) -> bytes:
    """The Name of an object, by its TPMT_PUBLIC."""
    return struct.pack(">H", SHA256) + hashlib.sha256(public).digest()


def digest_pcrs(values: Mapping[int, bytes]) -> bytes:
    """The digest of PCRs, in their order."""
    return hashlib.sha256(b"".join(values[pcr] for pcr in sorted(values))).digest()


def make_pcr_policy(values: Mapping[int, bytes], policy: bytes = bytes(HASH_SIZE)) -> bytes:
    """The policy that TPM2_PolicyPCR makes of one before it, while the PCRs have these values."""
    update = policy + struct.pack(">I", POLICY_PCR) + select_pcrs(values) + digest_pcrs(values)
    return hashlib.sha256(update).digest()


def make_authorized_policy(name: bytes) -> bytes:
    """The policy that TPM2_PolicyAuthorize makes of any before it which a key of this Name has signed."""
    update = bytes(HASH_SIZE) + struct.pack(">I", POLICY_AUTHORIZE) + name
    return hashlib.sha256(hashlib.sha256(update).digest()).digest()
