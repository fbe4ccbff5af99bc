"""Three nodes for the tests of this folder that need several and leave them as they are."""

from collections.abc import Iterator

import pytest
from tests.harness.cluster import Cluster, running_cluster
from tests.harness.plugin import pytest_runtest_makereport
from tests.harness.releases import Releases

__all__ = ["pytest_runtest_makereport"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("clusters"), controlplanes=2, workers=1) as running:
        yield running


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    """What a module's own nodes are upgraded to."""
    return Releases(tmp_path_factory.mktemp("releases"))
