"""Which certificates may stay."""

from datetime import UTC, datetime, timedelta

import pytest

from talos.api.common.common_pb2 import PEMEncodedCertificateAndKey
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType
from talos.process.renewal import is_current

AUTHORITY = CertificateAuthority.generate(KeyType.P256)
OTHER = CertificateAuthority.generate(KeyType.P256)
YEAR = timedelta(days=365)


def make_pair(age: timedelta) -> PEMEncodedCertificateAndKey:
    made = AUTHORITY.issue(
        common_name="a",
        dns_names=["a"],
        ips=["10.5.0.2"],
        ttl=YEAR,
        usages=Usage.SERVER,
        not_before=datetime.now(UTC) - age,
    )
    return PEMEncodedCertificateAndKey(crt=made.crt, key=made.key)


FRESH = make_pair(timedelta(hours=1))


@pytest.mark.parametrize(
    ("days", "stays"), [(100, True), (182, True), (183, False), (366, False), (-0.0006, True), (-1, False)]
)
def test_half_a_life_is_enough_and_clocks_may_differ_by_a_minute(days: float, *, stays: bool) -> None:
    assert is_current(make_pair(timedelta(days=days)), [AUTHORITY.certificate]) is stays


@pytest.mark.parametrize(
    ("dns_names", "ips", "stays"),
    [
        (["a"], ["10.5.0.2"], True),
        ([], [], True),
        (["a"], [], False),
        (["a", "b"], ["10.5.0.2"], False),
    ],
)
def test_another_name_needs_another_certificate(dns_names: list[str], ips: list[str], *, stays: bool) -> None:
    assert is_current(FRESH, [AUTHORITY.certificate], dns_names, ips) is stays


def test_one_of_the_authorities_has_signed_it() -> None:
    assert is_current(FRESH, [OTHER.certificate, AUTHORITY.certificate])
    assert not is_current(FRESH, [OTHER.certificate])
    assert not is_current(FRESH, [])


def test_what_is_no_certificate_does_not_stay() -> None:
    assert not is_current(PEMEncodedCertificateAndKey(), [AUTHORITY.certificate])
    broken = PEMEncodedCertificateAndKey(crt=b"no PEM", key=FRESH.key)
    assert not is_current(broken, [AUTHORITY.certificate])
