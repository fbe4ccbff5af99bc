"""Programs of a UKI's folder, how they are signed, and what enrolls the owner."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from tests.unit.pki.programs import make_program

from talos.pki.authority import CertificateAuthority
from talos.pki.signer import FileSigner
from talos.secureboot.authenticode import add_signature
from talos.secureboot.signed_data import SigningPair
from talos.secureboot.variables import (
    DATABASE,
    KEY_EXCHANGE_KEY,
    PLATFORM_KEY,
    make_authenticated,
    make_owner,
    make_signature_list,
)

LOADER = make_program([(".text", b"loader")])


def make_pair(authority: CertificateAuthority) -> SigningPair:
    """An owner whose key is RSA."""
    assert isinstance(authority.key, RSAPrivateKey)
    return SigningPair(certificate=authority.certificate, signer=FileSigner(authority.key))


def sign_program(program: bytes, authority: CertificateAuthority) -> bytes:
    """A signed program; the same each time."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "program.efi")
        path.write_bytes(program)
        add_signature(path, make_pair(authority))
        return path.read_bytes()


def make_variables(authority: CertificateAuthority) -> Mapping[str, bytes]:
    """The files by which firmware takes the owner's certificate, by their names; the same each time."""
    certificate = authority.certificate
    value = make_signature_list([certificate], make_owner(certificate))
    pair, moment = make_pair(authority), datetime(2026, 1, 1, tzinfo=UTC)
    return {
        f"{variable.name}.auth": make_authenticated(variable, value, pair, moment)
        for variable in (PLATFORM_KEY, KEY_EXCHANGE_KEY, DATABASE)
    }
