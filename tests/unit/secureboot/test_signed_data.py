"""What is signed for firmware, against the library's PKCS #7 and the reader of nodes."""

import io
import shlex
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.hazmat.primitives.serialization.pkcs7 import PKCS7Options, PKCS7SignatureBuilder
from tests.unit.pki.programs import make_uki
from tests.unit.pki.test_signer import PROGRAM
from tests.unit.secureboot.programs import make_pair, sign_program

from talos.pki.authenticode import Trust, check_signature
from talos.pki.authority import CertificateAuthority
from talos.pki.keys import key_to_pem
from talos.secureboot.keys import make_certificate
from talos.secureboot.signed_data import FIRST, SEQUENCE, SIGNED_DATA, encode, encode_object, sign_detached
from talos.system.errors import UserError
from talos.system.pe import Program


def test_it_is_as_the_library_has_it(made: CertificateAuthority) -> None:
    pair = make_pair(made)
    own = encode(SEQUENCE, encode_object(SIGNED_DATA), encode(FIRST, sign_detached(b"value", pair)))
    assert isinstance(made.key, RSAPrivateKey)
    builder = PKCS7SignatureBuilder().set_data(b"value").add_signer(made.certificate, made.key, SHA256())
    options = [PKCS7Options.DetachedSignature, PKCS7Options.Binary, PKCS7Options.NoAttributes]
    assert own == builder.sign(Encoding.DER, options)


def test_two_signatures_of_a_program(made: CertificateAuthority, signing: CertificateAuthority) -> None:
    data = sign_program(sign_program(make_uki("v1.15.3"), made), signing)
    program = Program(io.BytesIO(data), len(data))
    for owner in (made, signing):
        assert check_signature(program, Trust(trusted=[owner.certificate])) == owner.certificate


def test_a_certificate_of_a_key_behind_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    key = generate_private_key(65537, 2048)
    (tmp_path / "key.pem").write_bytes(key_to_pem(key))
    public, command = tmp_path / "key.pub", shlex.join([sys.executable, "-c", PROGRAM, f"{tmp_path}/key.pem"])
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    certificate = make_certificate(f"command:{command}", public, "Ours", timedelta(days=1))
    certificate.verify_directly_issued_by(certificate)
    assert certificate.public_key() == key.public_key()
    assert certificate.subject.rfc4514_string() == "CN=Ours"
    other = Ed25519PrivateKey.generate().public_key()
    public.write_bytes(other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(UserError, match=r"key\.pub: firmware takes RSA keys only"):
        make_certificate(f"command:{command}", public, "Ours", timedelta(days=1))
