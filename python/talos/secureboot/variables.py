"""Authenticated variables of UEFI: the files by which firmware takes Secure Boot's keys.

UEFI specification 2.10, sections 8.2.2 (EFI_VARIABLE_AUTHENTICATION_2) and 32.4.1 (EFI_SIGNATURE_LIST).
"""

import hashlib
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from talos.secureboot.signed_data import SigningPair, sign_detached
from talos.system.efi_signatures import LIST, SHA256, X509
from talos.system.efi_variables import APPEND, KEPT, SIGNED

_GLOBAL = uuid.UUID("8be4df61-93ca-11d2-aa0d-00e098032b8c")
_IMAGE_SECURITY = uuid.UUID("d719b2cb-3d3a-4596-a3bc-dad00e67656f")
_CERT_PKCS7 = uuid.UUID("4aafd29d-68df-49ee-8aa9-347d375665a7")

_REVISION, _TYPE_GUID = 0x0200, 0x0EF1
"""WIN_CERTIFICATE's revision, and its type whose kind is in a GUID."""
_HEAD = struct.Struct("<IHH")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable of Secure Boot."""

    name: str
    vendor: uuid.UUID


PLATFORM_KEY = Variable(name="PK", vendor=_GLOBAL)
KEY_EXCHANGE_KEY = Variable(name="KEK", vendor=_GLOBAL)
DATABASE = Variable(name="db", vendor=_IMAGE_SECURITY)
REVOKED = Variable(name="dbx", vendor=_IMAGE_SECURITY)


def make_owner(certificate: x509.Certificate) -> uuid.UUID:
    """The id of who adds an entry. Any will do; one that follows from a certificate is the same again."""
    digest = hashlib.sha256(certificate.public_bytes(Encoding.DER)).digest()
    return uuid.UUID(bytes=digest[:16], version=4)


def make_signature_list(certificates: Sequence[x509.Certificate], owner: uuid.UUID) -> bytes:
    """The value of a variable: a list for each certificate, as their sizes differ."""
    return b"".join(_make_list(X509, each.public_bytes(Encoding.DER), owner) for each in certificates)


def make_digest_list(digests: Sequence[bytes], owner: uuid.UUID) -> bytes:
    """The value of a variable with the SHA-256 of programs, as their signatures are of."""
    return b"".join(_make_list(SHA256, digest, owner) for digest in digests)


def _make_list(kind: uuid.UUID, data: bytes, owner: uuid.UUID) -> bytes:
    entry = owner.bytes_le + data
    return LIST.pack(kind.bytes_le, LIST.size + len(entry), 0, len(entry)) + entry


def make_authenticated(
    variable: Variable, value: bytes, pair: SigningPair, moment: datetime, *, append: bool = False
) -> bytes:
    """The file that sets a variable, or adds to it: timestamp, signature, value. UserError."""
    time, attributes = _make_time(moment), KEPT | SIGNED | (APPEND if append else 0)
    content = (
        variable.name.encode("utf-16-le")
        + variable.vendor.bytes_le
        + struct.pack("<I", attributes)
        + time
        + value
    )
    signature = sign_detached(content, pair)
    head = _HEAD.pack(_HEAD.size + 16 + len(signature), _REVISION, _TYPE_GUID)
    return time + head + _CERT_PKCS7.bytes_le + signature + value


def _make_time(moment: datetime) -> bytes:
    # EFI_TIME; nanoseconds, time zone and daylight saving must be zero here.
    now = moment.astimezone(UTC)
    return struct.pack(
        "<HBBBBBxIhBx", now.year, now.month, now.day, now.hour, now.minute, now.second, 0, 0, 0
    )
