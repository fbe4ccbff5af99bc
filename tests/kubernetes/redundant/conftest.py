"""A cluster with three control plane nodes for the tests of this folder, ended before other tests begin."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.kubernetes import Kubernetes, all_images, running_kubernetes
from tests.harness.releases import Releases

WORKERS = int(os.environ.get("HEALING_WORKERS", "1"))


@pytest.fixture(scope="package")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    return Releases(tmp_path_factory.mktemp("releases"), others=all_images())


@pytest.fixture(scope="package")
def redundant(releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    folder: Path = tmp_path_factory.mktemp("clusters")
    images, stamp = releases.images, releases.stamp()
    with running_kubernetes(
        folder, controlplanes=3, workers=WORKERS, images=images, stamp=stamp
    ) as kubernetes:
        yield kubernetes
