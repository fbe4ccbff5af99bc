# ruff: noqa: E501 - messages stand whole, so that they can be searched for

import ipaddress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from talos.pki.authority import CA_LIFETIME, CertificateAuthority, Usage
from talos.pki.certificate import parse_certificate, spki_fingerprint
from talos.pki.csr import make_csr
from talos.pki.keys import KeyType, make_key, parse_key
from talos.pki.names import organizations_of
from talos.system.errors import UserError

CA = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"])
OTHER = CertificateAuthority.generate(KeyType.P256, common_name="front-proxy")


def extension[E: x509.ExtensionType](certificate: x509.Certificate, kind: type[E]) -> E:
    return certificate.extensions.get_extension_for_class(kind).value


def test_authority_lives_ten_years_from_now() -> None:
    before = datetime.now(UTC) - timedelta(seconds=1.1)  # whole seconds, of a clock that lags a tick
    certificate = CertificateAuthority.generate(KeyType.ED25519).certificate
    begin = certificate.not_valid_before_utc
    assert certificate.not_valid_after_utc - begin == CA_LIFETIME == timedelta(hours=87600)
    assert before <= begin <= datetime.now(UTC)


def test_extensions_of_an_authority() -> None:
    assert organizations_of(CA.certificate.subject) == ["talos"]
    assert extension(CA.certificate, x509.BasicConstraints).ca
    assert extension(CA.certificate, x509.KeyUsage).key_cert_sign


@pytest.mark.parametrize("authority", [CA, OTHER])
def test_leaf_is_signed_by_its_authority(authority: CertificateAuthority) -> None:
    pair = authority.issue(
        common_name="node-1",
        dns_names=["node-1", "node-1"],
        ips=["10.0.0.2", "::1"],
        usages=Usage.SERVER,
        key_encipherment=True,
    )
    leaf = parse_certificate(pair.crt)
    leaf.verify_directly_issued_by(authority.certificate)
    names = extension(leaf, x509.SubjectAlternativeName)
    assert names.get_values_for_type(x509.DNSName) == ["node-1"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("10.0.0.2"),
        ipaddress.ip_address("::1"),
    ]
    assert list(extension(leaf, x509.ExtendedKeyUsage)) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert extension(leaf, x509.KeyUsage).key_encipherment
    with pytest.raises(x509.ExtensionNotFound):
        extension(leaf, x509.BasicConstraints)
    assert leaf.public_key() == parse_key(pair.key).public_key()


def test_form_is_that_of_upstreams_certificates() -> None:
    rsa = CertificateAuthority.generate(KeyType.RSA4096, organizations=["talos"])
    assert isinstance(rsa.certificate.signature_hash_algorithm, hashes.SHA512)
    assert isinstance(OTHER.certificate.signature_hash_algorithm, hashes.SHA256)
    # PrintableString is tag 0x13, UTF8String 0x0c.
    assert b"\x13\x05talos" in CA.certificate.subject.public_bytes()
    assert b"\x0c\x03a@b" in parse_certificate(CA.issue(organizations=["a@b"]).crt).subject.public_bytes()
    serials = [parse_certificate(CA.issue(common_name="x").crt).serial_number for _ in range(8)]
    assert 120 < max(serials).bit_length() <= 128


@pytest.mark.parametrize(("name", "critical"), [("", True), ("x", False)])
def test_alternative_names_are_critical_without_a_subject(name: str, critical: bool) -> None:
    certificate = parse_certificate(CA.issue(common_name=name, dns_names=["x"]).crt)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.critical is critical


def test_client_certificate_carries_roles() -> None:
    pair = CA.issue(organizations=["os:admin"], usages=Usage.CLIENT, key_type=KeyType.ED25519)
    leaf = parse_certificate(pair.crt)
    assert organizations_of(leaf.subject) == ["os:admin"]
    assert list(extension(leaf, x509.ExtendedKeyUsage)) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert pair.key.startswith(b"-----BEGIN ED25519 PRIVATE KEY-----")


def test_request_is_signed_without_the_roles_in_it() -> None:
    key = make_key(KeyType.P256)
    request = make_csr(key, common_name="w", organizations=["os:admin"], dns_names=["w"], ips=["10.0.0.3"])
    leaf = parse_certificate(CA.sign(request, usages=Usage.SERVER, organizations=[]))
    leaf.verify_directly_issued_by(CA.certificate)
    assert organizations_of(leaf.subject) == []
    assert leaf.subject.rfc4514_string() == "CN=w"
    assert extension(leaf, x509.SubjectAlternativeName).get_values_for_type(x509.DNSName) == ["w"]
    kept = parse_certificate(CA.sign(request))
    assert organizations_of(kept.subject) == ["os:admin"]


def test_request_with_a_wrong_signature_is_refused() -> None:
    good = x509.load_pem_x509_csr(make_csr(make_key(KeyType.ED25519), common_name="w"))
    der = bytearray(good.public_bytes(Encoding.DER))
    der[-1] ^= 1
    bad = x509.load_der_x509_csr(bytes(der)).public_bytes(Encoding.PEM)
    with pytest.raises(UserError, match="the request's signature does not match its key"):
        CA.sign(bad)


def test_authority_round_trip() -> None:
    again = CertificateAuthority.from_pem(CA.pem.crt, CA.pem.key)
    assert again.pem == CA.pem
    assert spki_fingerprint(again.certificate) == spki_fingerprint(CA.certificate)
    assert len(spki_fingerprint(CA.certificate)) == 44


LEAF = CA.issue(common_name="leaf")


@pytest.mark.parametrize(
    ("crt", "key", "message"),
    [
        (
            b"x",
            CA.pem.key,
            "CA.crt: no certificate in PEM form (expected a block that begins with -----BEGIN CERTIFICATE-----)",
        ),
        (
            b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----",
            CA.pem.key,
            "CA.crt: the certificate is damaged (copy the whole block, from BEGIN to END)",
        ),
        (CA.crt, OTHER.pem.key, "CA: the key does not belong to the certificate"),
        (
            LEAF.crt,
            LEAF.key,
            "CA: the certificate is no CA certificate (its basic constraints must say CA:TRUE)",
        ),
    ],
)
def test_what_is_no_authority_is_refused(crt: bytes, key: bytes, message: str) -> None:
    with pytest.raises(UserError) as raised:
        CertificateAuthority.from_pem(crt, key)
    assert str(raised.value) == message


def test_bad_address_is_named() -> None:
    with pytest.raises(UserError, match="is no IP address"):
        CA.issue(ips=["10.0.0"])
