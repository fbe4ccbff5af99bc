"""When a node's certificate is due for renewal, and a controller that checks it periodically."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import trio
from cryptography import x509

from talos.api.common import common_pb2 as common
from talos.api.definitions import secrets_pb2 as secrets
from talos.pki.certificate import PemPair, parse_certificate
from talos.resource.controller.controller import ControllerRuntime, Reconciler
from talos.system.errors import UserError

RENEWAL = timedelta(hours=12)
"""Age at which a certificate of 24 hours is renewed (as upstream)."""

LOOK_EVERY = 600.0
"""Seconds between checks of the age. Not one long wait, as the clock may jump meanwhile."""


class RenewingReconciler(Reconciler):
    """A reconciler that also runs periodically."""

    async def run(self, runtime: ControllerRuntime) -> None:
        """Reconcile at every change, and periodically."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_tick, runtime)
            await super().run(runtime)


async def _tick(runtime: ControllerRuntime) -> None:
    while True:
        await trio.sleep(LOOK_EVERY)
        runtime.queue_reconcile()


def is_current(
    pem: common.PEMEncodedCertificateAndKey,
    sans: secrets.CertSANSpec | None,
    authorities: Sequence[bytes],
    *,
    now: datetime | None = None,
) -> bool:
    """Whether a certificate may stay: young enough, for these names, signed by one of these CAs."""
    if not pem.crt or not pem.key:
        return False
    try:
        certificate = parse_certificate(pem.crt)
        issuers = [parse_certificate(crt) for crt in authorities]
    except UserError:
        return False
    now = now or datetime.now(UTC)
    begin = certificate.not_valid_before_utc
    if not begin <= now < min(begin + RENEWAL, certificate.not_valid_after_utc):
        return False
    return _is_signed_by(certificate, issuers) and (sans is None or _has_names(certificate, sans))


def _is_signed_by(certificate: x509.Certificate, issuers: Sequence[x509.Certificate]) -> bool:
    for issuer in issuers:
        try:
            certificate.verify_directly_issued_by(issuer)
        except Exception:  # noqa: BLE001, S112 - any failure means: not the issuer
            continue
        return True
    return False


def _has_names(certificate: x509.Certificate, sans: secrets.CertSANSpec) -> bool:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    dns_names = set(names.get_values_for_type(x509.DNSName))
    ips = {str(ip) for ip in names.get_values_for_type(x509.IPAddress)}
    return dns_names == set(sans.dns_names) and ips == set(map(str, addresses_of(sans)))


def addresses_of(sans: secrets.CertSANSpec) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """The addresses among the names."""
    return [ipaddress.ip_address(ip.ip) for ip in sans.i_ps]


def to_proto(pair: PemPair) -> common.PEMEncodedCertificateAndKey:
    """A pair as the resources hold it."""
    return common.PEMEncodedCertificateAndKey(crt=pair.crt, key=pair.key)
