"""The token by which a management service recognizes the machine."""

import trio.testing
from tests.unit.machined.controllers.running import running

from talos.api.definitions.runtime_pb2 import MetaKeySpec, MetaLoadedSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.machined.controllers.runtime.unique_token import META_KEY, UniqueMachineTokenController
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState

CONFIG = "apiVersion: v1alpha1\nkind: SideroLinkConfig\napiUrl: grpc://a:1\nuniqueToken: configured\n"


async def test_metas_token_comes_before_the_configs_and_there_is_none_before_meta_is_read() -> None:
    state = MemoryState()
    async with running(state, UniqueMachineTokenController()):
        await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=CONFIG.encode()))
        await trio.testing.wait_all_tasks_blocked()
        assert await state.list(kinds.UNIQUE_MACHINE_TOKEN) == []
        await put(state, *ids.META_LOAD, MetaLoadedSpec(done=True))
        await wait_for(state, *ids.UNIQUE_MACHINE_TOKEN, lambda one: one.spec.token == "configured")
        await put(state, kinds.META_KEY, META_KEY, MetaKeySpec(value="kept"))
        await wait_for(state, *ids.UNIQUE_MACHINE_TOKEN, lambda one: one.spec.token == "kept")
