"""The key of an owner."""

from datetime import timedelta

import pytest

from talos.pki.authority import CertificateAuthority
from talos.pki.keys import KeyType


@pytest.fixture(scope="session")
def made() -> CertificateAuthority:
    """Made once: a key of 4096 bits takes seconds."""
    return CertificateAuthority.generate(KeyType.RSA4096, common_name="Ours", ttl=timedelta(days=1))
