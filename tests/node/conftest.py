"""One control plane node for all tests of this folder."""

from collections.abc import Iterator

import pytest
from tests.harness.cluster import Cluster, running_cluster
from tests.harness.plugin import pytest_runtest_makereport

__all__ = ["pytest_runtest_makereport"]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("clusters")) as running:
        yield running


@pytest.fixture(autouse=True)
def no_traceback(cluster: Cluster) -> Iterator[None]:
    """During every test: nothing may fail unexpectedly."""
    before = {name: len(text) for name, text in cluster.consoles().items()}
    yield
    for name, text in cluster.consoles().items():
        assert "Traceback" not in text[before.get(name, 0) :], f"{name}'s console"
