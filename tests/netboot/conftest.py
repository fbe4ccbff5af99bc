"""What machines boot from: the assets and programs that `make netboot-tests` builds."""

import os
from pathlib import Path

import pytest
from driver.accelerator import Accelerator, find_accelerator
from driver.programs import Programs

BUILD = Path(__file__).parents[2] / "build"
ROOT_VARIABLE = "TALOS_PXE_ROOT"


def _built(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"there is no {path}: make netboot-tests builds it")
    return path.resolve()


@pytest.fixture(scope="session", autouse=True)
def is_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root for a network of its own")


@pytest.fixture(scope="session")
def assets(is_root: None) -> Path:
    """The folder of the network boot."""
    return _built(BUILD / "netboot")


@pytest.fixture(scope="session")
def root(is_root: None) -> Path:
    """Where QEMU, its firmware, dnsmasq and iPXE are."""
    return _built(BUILD / "root-vm")


@pytest.fixture(scope="session")
def programs(root: Path) -> Programs:
    return Programs((root,))


@pytest.fixture(scope="session")
def accelerator(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Accelerator:
    return find_accelerator(programs, tmp_path_factory.mktemp("probe"))
