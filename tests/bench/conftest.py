"""Two nodes for what is measured between running ones."""

import compileall
from collections.abc import Iterator

import pytest
from tests.bench.machine import Measured, run_nodes
from tests.harness.cluster import REPOSITORY


@pytest.fixture(scope="session", autouse=True)
def bytecode() -> None:
    """The launcher and the client have theirs when they are installed: compiling is not to be measured."""
    compileall.compile_dir(REPOSITORY / "python", quiet=1)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    with run_nodes(tmp_path_factory.mktemp("pair"), workers=1) as measured:
        measured.settle()
        yield measured
