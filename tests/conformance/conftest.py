"""A cluster for Kubernetes' conformance suite, which needs two nodes that take its pods."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.e2e import add_images
from tests.harness.kubernetes import Kubernetes, link_images, running_kubernetes
from tests.harness.plugin import pytest_runtest_makereport

__all__ = ["pytest_runtest_makereport"]


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    folder: Path = tmp_path_factory.mktemp("clusters")
    images = link_images(folder)
    add_images(images)
    with running_kubernetes(folder, controlplanes=1, workers=2, images=images) as kubernetes:
        yield kubernetes
