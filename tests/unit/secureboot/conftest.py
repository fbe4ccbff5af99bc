"""The key of an owner."""

from datetime import timedelta

import pytest

from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType


@pytest.fixture(scope="session")
def made() -> CertificateAuthority:
    """Made once: a key of 4096 bits takes seconds."""
    return CertificateAuthority.generate(KeyType.RSA4096, common_name="Ours", ttl=timedelta(days=1))


@pytest.fixture(scope="session")
def signing() -> CertificateAuthority:
    """One whose certificate is for programs, as that of `talosctl gen secureboot uki`."""
    return CertificateAuthority.generate(
        KeyType.RSA4096, common_name="Ours", ttl=timedelta(days=1), usages=Usage.CODE_SIGNING
    )
