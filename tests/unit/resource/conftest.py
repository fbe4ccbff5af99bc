"""The States under test: what holds for one holds for all."""

import pytest
from tests.unit.resource.loopback import LoopbackTransport

from talos.resource.memory.state import MemoryState
from talos.resource.remote.service import make_state_service
from talos.resource.remote.state import RemoteState
from talos.resource.state import State


@pytest.fixture(params=["memory", "remote"])
def state(request: pytest.FixtureRequest) -> State:
    """An empty State."""
    memory = MemoryState()
    if request.param == "memory":
        return memory
    return RemoteState(LoopbackTransport(make_state_service(memory)))
