"""When a node's certificate is due for renewal, and a controller that checks it periodically."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import trio
from cryptography import x509

from talos.api.common import common_pb2 as common
from talos.api.definitions import secrets_pb2 as secrets
from talos.pki.certificate import PemPair, has_names, is_signed_by, parse_certificate
from talos.resource.controller.controller import ControllerRuntime, Reconciler
from talos.system.errors import UserError

RENEWAL = 0.5
"""Part of its life after which a certificate is renewed: of 24 hours 12, as upstream."""

CLOCK_SKEW = timedelta(minutes=1)
"""By which clocks of nodes may differ before a certificate of another node's counts as made in the future."""

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
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not begin - CLOCK_SKEW <= now < begin + (end - begin) * RENEWAL:
        return False
    return is_signed_by(certificate, issuers) and (
        sans is None or has_names(certificate, sans.dns_names, addresses_of(sans))
    )


def check_clocks(certificate: x509.Certificate, *, now: datetime | None = None) -> None:
    """Refuse a certificate that was made just now and yet is not valid now: the clocks of two nodes differ.

    Raises:
        UserError: when they differ too much to use it.
    """
    now = now or datetime.now(UTC)
    ahead = certificate.not_valid_before_utc - now
    if ahead <= CLOCK_SKEW and now < certificate.not_valid_after_utc:
        return
    direction = "ahead of" if ahead > timedelta(0) else "behind"
    raise UserError(
        f"the control plane's clock is {_describe(abs(ahead))} {direction} this node's",
        where="the certificate signed by trustd",
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
