"""Authorities and certificates of a cluster, for the tests of its API's port."""

import pytest

from .world import Pki


@pytest.fixture
def pki() -> Pki:
    return Pki()
