"""When a certificate of the node is due for renewal, and a controller that checks it periodically."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import trio
from cryptography import x509

from talos.api.common.common_pb2 import PEMEncodedCertificateAndKey
from talos.pki.certificate import has_names, is_signed_by, parse_certificate
from talos.resource import ids
from talos.resource.controller.controller import ControllerRuntime, Reconciler
from talos.system.errors import UserError

RENEWAL = 0.5
"""Part of its life after which a certificate is renewed: of 24 hours 12, as upstream."""

CLOCK_SKEW = timedelta(minutes=1)
"""By which clocks of nodes may differ before a certificate of another node's counts as made in the future."""

CHECK_INTERVAL = 600.0
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
        await trio.sleep(CHECK_INTERVAL)
        runtime.queue_reconcile()


def is_current(
    pair: PEMEncodedCertificateAndKey,
    authorities: Iterable[x509.Certificate],
    dns_names: Iterable[str] = (),
    ips: Iterable[object] = (),
    *,
    now: datetime | None = None,
) -> bool:
    """Whether a certificate may stay: young, by one of these CAs, for these names if there are any."""
    if not pair.crt or not pair.key:
        return False
    try:
        certificate = parse_certificate(pair.crt)
    except UserError:
        return False
    now = now or datetime.now(UTC)
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not begin - CLOCK_SKEW <= now < begin + (end - begin) * RENEWAL:
        return False
    names, addresses = list(dns_names), list(ips)
    if (names or addresses) and not has_names(certificate, names, addresses):
        return False
    return is_signed_by(certificate, authorities)


async def is_clock_right(runtime: ControllerRuntime) -> bool:
    """Whether certificates may be issued: a wrong clock would make them invalid."""
    time = await runtime.get_or_none(*ids.TIME_STATUS)
    return time is not None and (time.spec.synced or time.spec.sync_disabled)
