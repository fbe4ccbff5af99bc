"""A cluster with Kubernetes for the tests of this folder, which leave it as they are."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.cluster import running_cluster
from tests.harness.kubernetes import Kubernetes, all_images
from tests.harness.plugin import pytest_runtest_makereport

__all__ = ["pytest_runtest_makereport"]


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    folder: Path = tmp_path_factory.mktemp("clusters")
    with running_cluster(folder, controlplanes=1, workers=1, images=all_images()) as cluster:
        kubernetes = Kubernetes(cluster, folder / "kubeconfig")
        kubernetes.wait_until_ready()
        yield kubernetes
