"""Three nodes for the tests of this folder that need several and leave them as they are."""

from collections.abc import Iterator

import pytest
from tests.harness.cluster import Cluster, running_cluster
from tests.harness.plugin import pytest_runtest_makereport

__all__ = ["pytest_runtest_makereport"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("clusters"), controlplanes=2, workers=1) as running:
        yield running
