"""What the certificates of the node's API and of trustd have in common."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from talos.api.common import common_pb2 as common
from talos.api.definitions import secrets_pb2 as secrets
from talos.pki.certificate import PemPair, is_signed_by, parse_certificate
from talos.process import renewal
from talos.process.renewal import is_clock_right
from talos.resource import ids
from talos.resource.controller.controller import ControllerRuntime
from talos.system.errors import UserError

CLOCK_TOLERANCE = timedelta(hours=1)
"""By how much a clock may be behind that of the workstation on which the authority was made."""

TRUSTD_ANSWER = "the certificate signed by trustd"
"""The place of errors in what the control plane has signed."""


def is_current(
    pem: common.PEMEncodedCertificateAndKey,
    sans: secrets.CertSANSpec | None,
    authorities: Sequence[bytes],
    *,
    now: datetime | None = None,
) -> bool:
    """Whether a certificate may stay: young enough, for these names, signed by one of these CAs."""
    try:
        issuers = [parse_certificate(crt) for crt in authorities]
    except UserError:
        return False
    names = sans or secrets.CertSANSpec()
    return renewal.is_current(pem, issuers, names.dns_names, addresses_of(names), now=now)


def check_signed(certificate: x509.Certificate, key: PublicKeyTypes, authorities: Sequence[bytes]) -> None:
    """Refuse a certificate that no client would accept from this node.

    UserError: when it is for another key, or by a CA that the config does not name.
    """
    if certificate.public_key() != key:
        raise UserError("the certificate is for another key", where=TRUSTD_ANSWER)
    if not is_signed_by(certificate, [parse_certificate(crt, where="machine.ca") for crt in authorities]):
        raise UserError(
            "the certificate is signed by a CA that this node's config does not name",
            where=TRUSTD_ANSWER,
            hint="add the control plane's CA to machine.acceptedCAs",
        )


def check_clocks(certificate: x509.Certificate, *, now: datetime | None = None) -> None:
    """Refuse a certificate that was made just now and yet is not valid now: the clocks of two nodes differ.

    UserError: when they differ too much to use it.
    """
    now = now or datetime.now(UTC)
    ahead = certificate.not_valid_before_utc - now
    if ahead <= renewal.CLOCK_SKEW and now < certificate.not_valid_after_utc:
        return
    direction = "ahead of" if ahead > timedelta(0) else "behind"
    raise UserError(
        f"the control plane's clock is {_describe(abs(ahead))} {direction} this node's",
        where=TRUSTD_ANSWER,
        hint="check the time servers of both: talosctl time",
    )


def _describe(duration: timedelta) -> str:
    minutes = int(duration.total_seconds()) // 60
    hours, days = minutes // 60, minutes // 1440
    return f"{days} days" if days else f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"


def is_issued_by(pem: bytes, authority: bytes) -> bool:
    """Whether this CA has signed a certificate; both PEM."""
    try:
        return is_signed_by(parse_certificate(pem), [parse_certificate(authority)])
    except UserError:
        return False


def addresses_of(sans: secrets.CertSANSpec) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """The addresses among the names."""
    return [ipaddress.ip_address(ip.ip) for ip in sans.i_ps]


def to_proto(pair: PemPair) -> common.PEMEncodedCertificateAndKey:
    """A pair as the resources hold it."""
    return common.PEMEncodedCertificateAndKey(crt=pair.crt, key=pair.key)


async def is_clock_plausible(runtime: ControllerRuntime, authority: bytes) -> bool:
    """Whether a certificate made now can be valid now: the clock is right or within the authority's years.

    So a node whose time servers are silent can be managed, unless its clock is so wrong that no client would
    accept its certificate. One that was made by a wrong clock is replaced when the clock has been set.
    """
    if await runtime.get_or_none(*ids.TIME_STATUS) is None or await is_clock_right(runtime):
        return True
    certificate, now = parse_certificate(authority, where="machine.ca"), datetime.now(UTC)
    return certificate.not_valid_before_utc - CLOCK_TOLERANCE <= now < certificate.not_valid_after_utc
