"""Configs of a cluster whose secrets are generated once."""

import pytest

from talos.config.generate.config import generate_config, render
from talos.config.generate.options import GenerateOptions
from talos.config.model import MachineType
from talos.config.secrets.bundle import SecretsBundle


@pytest.fixture(scope="session")
def bundle() -> SecretsBundle:
    """Secrets of the cluster."""
    return SecretsBundle.generate()


@pytest.fixture(scope="session")
def options(bundle: SecretsBundle) -> GenerateOptions:
    """What its configs are made from."""
    return GenerateOptions(cluster_name="demo", endpoint="https://10.0.0.1", secrets=bundle)


@pytest.fixture(scope="session")
def control_plane(options: GenerateOptions) -> str:
    """A control plane node's config."""
    return render(generate_config(options, MachineType.CONTROL_PLANE), docs=False, examples=False)


@pytest.fixture(scope="session")
def worker(options: GenerateOptions) -> str:
    """A worker's config."""
    return render(generate_config(options, MachineType.WORKER), docs=False, examples=False)
