"""The States under test: what holds for one holds for all."""

import pytest

from talos.resource.memory import MemoryState
from talos.resource.state import State


@pytest.fixture(params=["memory"])
def state(request: pytest.FixtureRequest) -> State:
    """An empty State."""
    del request
    return MemoryState()
