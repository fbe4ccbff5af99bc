"""A cluster with Kubernetes for the tests of this folder, which leave it as they are."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.kubernetes import Kubernetes, link_images, running_kubernetes
from tests.harness.plugin import pytest_runtest_makereport
from tests.kubernetes.runners import add_runners

__all__ = ["pytest_runtest_makereport"]


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    folder: Path = tmp_path_factory.mktemp("clusters")
    images = link_images(folder)
    add_runners(images)
    with running_kubernetes(folder, controlplanes=1, workers=1, images=images) as kubernetes:
        yield kubernetes
