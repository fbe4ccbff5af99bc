"""Certificate authorities: generate or load one, issue leaf certificates, sign requests.

ca = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"])
ca = CertificateAuthority.from_pem(crt, key, where="machine.ca")
ca.pem -> PemPair
ca.issue(common_name=..., organizations=..., dns_names=..., ips=..., ttl=..., usages=Usage.SERVER) -> PemPair
ca.certify(public_key, ...) -> bytes (PEM), the same for a key of another's
ca.sign(csr, ttl=..., usages=...) -> bytes (PEM)
"""

import enum
import secrets
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from talos.pki.certificate import PemPair, certificate_to_pem, has_key, parse_certificate
from talos.pki.csr import parse_csr
from talos.pki.keys import KeyType, PrivateKey, PublicKey, key_to_pem, make_key, parse_key
from talos.pki.names import IPAddress, make_alternative_names, make_subject, signature_hash
from talos.system.errors import UserError

CA_LIFETIME = timedelta(hours=87600)  # every CA is valid for ten years, as upstream's
NODE_LIFETIME = timedelta(hours=24)  # as upstream: certificates of the node's own services
_SERIAL_BITS = 128  # as upstream
CLOCK_REALTIME_COARSE = 5 if sys.platform == "linux" else time.CLOCK_REALTIME  # linux/time.h


class Usage(enum.Flag):
    """What a certificate may be used for."""

    SERVER = enum.auto()
    CLIENT = enum.auto()
    BOTH = SERVER | CLIENT
    CODE_SIGNING = enum.auto()


@dataclass(frozen=True, slots=True)
class CertificateAuthority:
    """A CA certificate with the key to sign."""

    certificate: x509.Certificate
    key: PrivateKey

    @classmethod
    def generate(
        cls,
        key_type: KeyType,
        *,
        common_name: str = "",
        organizations: Sequence[str] = (),
        ips: Sequence[IPAddress | str] = (),
        ttl: timedelta = CA_LIFETIME,
        usages: Usage = Usage.BOTH,
        not_before: datetime | None = None,
    ) -> "CertificateAuthority":
        """A new self-signed authority, valid from ``not_before``, by default from now on."""
        names = make_alternative_names((), ips)
        key = make_key(key_type)
        builder = make_root_builder(
            key.public_key(), make_subject(common_name, organizations), ttl, usages, not_before
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return cls(builder.sign(key, signature_hash(key)), key)

    @classmethod
    def from_pem(cls, crt: bytes, key: bytes, *, where: str = "CA") -> "CertificateAuthority":
        """Load an authority.

        UserError: when one of the two can't be parsed, they don't belong together,
            or the certificate is no CA's.
        """
        certificate = parse_certificate(crt, where=f"{where}.crt")
        private = parse_key(key, where=f"{where}.key")
        if not has_key(certificate, private):
            raise UserError("the key does not belong to the certificate", where=where)
        check_authority(certificate, where=where)
        return cls(certificate, private)

    @property
    def pem(self) -> PemPair:
        """Certificate and key as PEM."""
        return PemPair(self.crt, key_to_pem(self.key))

    @property
    def crt(self) -> bytes:
        """The certificate as PEM."""
        return certificate_to_pem(self.certificate)

    def issue(
        self,
        *,
        common_name: str = "",
        organizations: Sequence[str] = (),
        dns_names: Sequence[str] = (),
        ips: Sequence[IPAddress | str] = (),
        ttl: timedelta = NODE_LIFETIME,
        usages: Usage = Usage.BOTH,
        key_encipherment: bool = False,
        not_before: datetime | None = None,
        key_type: KeyType = KeyType.P256,
    ) -> PemPair:
        """A new key and its certificate."""
        key = make_key(key_type)
        certificate = self.certify(
            key.public_key(),
            common_name=common_name,
            organizations=organizations,
            dns_names=dns_names,
            ips=ips,
            ttl=ttl,
            usages=usages,
            key_encipherment=key_encipherment,
            not_before=not_before,
        )
        return PemPair(certificate, key_to_pem(key))

    def certify(
        self,
        key: PublicKey,
        *,
        common_name: str = "",
        organizations: Sequence[str] = (),
        dns_names: Sequence[str] = (),
        ips: Sequence[IPAddress | str] = (),
        ttl: timedelta = NODE_LIFETIME,
        usages: Usage = Usage.BOTH,
        key_encipherment: bool = False,
        not_before: datetime | None = None,
    ) -> bytes:
        """A certificate of another's key, PEM."""
        builder = (
            _builder(make_subject(common_name, organizations), self.certificate.subject, not_before, ttl)
            .public_key(key)
            .add_extension(_key_usage(key_encipherment=key_encipherment), critical=True)
            .add_extension(_extended_usage(usages), critical=False)
            .add_extension(self._identifier(), critical=False)
        )
        names = make_alternative_names(dns_names, ips)
        if names is not None:
            # RFC 5280, 4.2.1.6: with an empty subject, only the alternative names identify the owner.
            builder = builder.add_extension(names, critical=not (organizations or common_name))
        return certificate_to_pem(builder.sign(self.key, signature_hash(self.key)))

    def sign(
        self,
        csr: bytes,
        *,
        ttl: timedelta = NODE_LIFETIME,
        usages: Usage = Usage.BOTH,
        key_encipherment: bool = False,
        organizations: Sequence[str] | None = None,
        not_before: datetime | None = None,
        where: str = "certificate request",
    ) -> bytes:
        """A certificate for a request, with the request's subject and alternative names.

        ``organizations``, when given, replace those of the request: they are roles,
        and a server certificate must not carry any.

        UserError: when the request can't be parsed or its signature is wrong.
        """
        request = parse_csr(csr, where=where)
        subject = request.subject
        if organizations is not None:
            kept = [part for part in subject if part.oid != NameOID.ORGANIZATION_NAME]
            subject = x509.Name([*make_subject("", organizations), *kept])
        builder = (
            _builder(subject, self.certificate.subject, not_before, ttl)
            .public_key(request.public_key())
            .add_extension(_key_usage(key_encipherment=key_encipherment), critical=True)
            .add_extension(_extended_usage(usages), critical=False)
            .add_extension(self._identifier(), critical=False)
        )
        try:
            names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            builder = builder.add_extension(names.value, critical=not list(subject))
        except x509.ExtensionNotFound:
            pass
        return certificate_to_pem(builder.sign(self.key, signature_hash(self.key)))

    def _identifier(self) -> x509.AuthorityKeyIdentifier:
        try:
            own = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        except x509.ExtensionNotFound:
            return x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own.value)


def make_root_builder(
    key: PublicKey, subject: x509.Name, ttl: timedelta, usages: Usage, not_before: datetime | None = None
) -> x509.CertificateBuilder:
    """The certificate of an authority, which its own key is to sign."""
    return (
        _builder(subject, subject, not_before, ttl)
        .public_key(key)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(_extended_usage(usages), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def check_authority(certificate: x509.Certificate, *, where: str) -> None:
    """Refuse a certificate that is no CA's.

    UserError: when it is not one.
    """
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except x509.ExtensionNotFound:
        constraints = None
    if constraints is None or not constraints.value.ca:
        raise UserError(
            "the certificate is no CA certificate", where=where, hint="its basic constraints must say CA:TRUE"
        )


def _now() -> datetime:
    """The time of the coarse clock that OpenSSL compares with, which lags a tick behind the exact one.

    A certificate of this very moment would otherwise not be valid yet for some milliseconds.
    """
    return datetime.fromtimestamp(time.clock_gettime(CLOCK_REALTIME_COARSE), UTC)


def _builder(
    subject: x509.Name, issuer: x509.Name, not_before: datetime | None, ttl: timedelta
) -> x509.CertificateBuilder:
    begin = (not_before or _now()).replace(microsecond=0)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(secrets.randbits(_SERIAL_BITS) or 1)
        .not_valid_before(begin)
        .not_valid_after(begin + ttl)
    )


def _key_usage(*, signs_certificates: bool = False, key_encipherment: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=key_encipherment,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _extended_usage(usages: Usage) -> x509.ExtendedKeyUsage:
    oids = {
        Usage.SERVER: ExtendedKeyUsageOID.SERVER_AUTH,
        Usage.CLIENT: ExtendedKeyUsageOID.CLIENT_AUTH,
        Usage.CODE_SIGNING: ExtendedKeyUsageOID.CODE_SIGNING,
    }
    return x509.ExtendedKeyUsage([oid for usage, oid in oids.items() if usage in usages])
