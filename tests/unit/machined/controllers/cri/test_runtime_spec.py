"""The runtime spec, from documents."""

import trio

from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.machined.controllers.cri.runtime_spec import RuntimeSpecConfigController
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState

CONFIG = """\
version: v1alpha1
machine:
  registries:
    mirrors:
      old.example: {endpoints: ["https://mirror.example"], overridePath: true}
    config:
      old.example: {auth: {username: u, password: p}, tls: {insecureSkipVerify: true}}
---
apiVersion: v1alpha1
kind: RegistryMirrorConfig
name: new.example
endpoints: [{url: "https://other.example"}]
skipFallback: true
---
apiVersion: v1alpha1
kind: CRIBaseRuntimeSpecConfig
overrides: {process: {rlimits: [{type: RLIMIT_NOFILE, soft: 1024, hard: 1024}]}}
"""


async def test_the_runtime_spec_and_its_changes() -> None:
    state = MemoryState()
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, [RuntimeSpecConfigController()])
        default = await wait_for(state, kinds.BASE_RUNTIME_SPEC_CONFIG, "default", lambda _: True)
        assert default.spec.object["process"]["cwd"] == "/"  # type: ignore[index]
        await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=CONFIG.encode()))
        changes = await wait_for(state, kinds.BASE_RUNTIME_SPEC_CONFIG, "overrides", lambda _: True)
        assert "rlimits" in changes.spec.object["process"]  # type: ignore[operator]
        nursery.cancel_scope.cancel()
