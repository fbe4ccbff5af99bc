"""Subjects and alternative names of certificates."""

import ipaddress
import re
from collections.abc import Iterable, Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.name import _ASN1Type  # pyright: ignore[reportPrivateUsage] - no public name has it
from cryptography.x509.oid import NameOID

from talos.pki.keys import PrivateKey
from talos.system.errors import UserError

_PRINTABLE = re.compile(r"[A-Za-z0-9 '()+,./:=?-]+")
"""PrintableString of X.680."""

type IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def make_subject(common_name: str, organizations: Sequence[str]) -> x509.Name:
    """A subject of organizations and a common name; empty parts are left out."""
    attributes = [_attribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    if common_name:
        attributes.append(_attribute(NameOID.COMMON_NAME, common_name))
    return x509.Name(attributes)


def _attribute(oid: x509.ObjectIdentifier, value: str) -> x509.NameAttribute:
    """An attribute in the string type that Go's encoder chooses."""
    form = _ASN1Type.PrintableString if _PRINTABLE.fullmatch(value) else _ASN1Type.UTF8String
    return x509.NameAttribute(oid, value, form)


def make_alternative_names(
    dns_names: Iterable[str], ips: Iterable[IPAddress | str]
) -> x509.SubjectAlternativeName | None:
    """The extension with these names, without repetition; None when there are none."""
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in dict.fromkeys(dns_names)]
    names += [x509.IPAddress(ip) for ip in dict.fromkeys(map(parse_ip, ips))]
    return x509.SubjectAlternativeName(names) if names else None


def split_names(names: Iterable[str]) -> tuple[list[str], list[IPAddress]]:
    """Sort a mixed list, such as ``certSANs``, into DNS names and addresses."""
    dns_names: list[str] = []
    ips: list[IPAddress] = []
    for name in names:
        try:
            ips.append(ipaddress.ip_address(name))
        except ValueError:
            dns_names.append(name)
    return dns_names, ips


def organizations_of(subject: x509.Name) -> list[str]:
    """The organizations of a subject: for a client of the API, its roles."""
    return [str(name.value) for name in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def signature_hash(key: PrivateKey) -> hashes.SHA256 | hashes.SHA384 | hashes.SHA512 | None:
    """The digest to sign with; Ed25519 has its own."""
    match key:
        case ed25519.Ed25519PrivateKey():
            return None
        case ec.EllipticCurvePrivateKey() if key.curve.key_size <= 256:
            return hashes.SHA256()
        case ec.EllipticCurvePrivateKey() if key.curve.key_size <= 384:
            return hashes.SHA384()
        case _:
            return hashes.SHA512()


def parse_ip(text: IPAddress | str) -> IPAddress:
    """An address of a flag or a request.

    UserError: when it is none.
    """
    if not isinstance(text, str):
        return text
    try:
        return ipaddress.ip_address(text)
    except ValueError as error:
        raise UserError(f'"{text}" is no IP address', hint="such as 192.0.2.7 or 2001:db8::7") from error
