"""Programs of a UKI's folder, and how they are signed."""

from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from tests.unit.pki.programs import make_program

from talos.pki.authority import CertificateAuthority
from talos.pki.signer import FileSigner
from talos.secureboot.authenticode import add_signature
from talos.secureboot.signed_data import SigningPair

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
