"""Certificates and keys inside documents."""

from dataclasses import dataclass

from talos.config.schema import Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateAndKey(Section):
    """A certificate and its key as plain PEM."""

    cert: str | None = setting("certificate in PEM")
    key: str | None = setting("private key in PEM", secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PEMEncodedCertificateAndKey(Section):
    """A certificate and its key; in YAML base64 of PEM."""

    crt: bytes | None = setting("certificate, base64 of PEM")
    key: bytes | None = setting("private key, base64 of PEM", secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PEMEncodedCertificate(Section):
    """A certificate; in YAML base64 of PEM."""

    crt: bytes | None = setting("certificate, base64 of PEM")


@dataclass(frozen=True, slots=True, kw_only=True)
class PEMEncodedKey(Section):
    """A private key; in YAML base64 of PEM."""

    key: bytes | None = setting("private key, base64 of PEM", secret=True)
