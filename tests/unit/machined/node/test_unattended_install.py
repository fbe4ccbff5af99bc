"""The status of an installation that the config requests is there only when a document requests it."""

from talos.api.definitions import enums_pb2 as enums
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.machined.node.unattended_install import show_phase
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState

MAIN = "version: v1alpha1\nmachine: {type: worker}\n"
DOCUMENT = (
    "---\napiVersion: v1alpha1\nkind: UnattendedInstallConfig\n"
    "provisioning: {diskSelector: {match: disk.size > 1u}}\n"
)


async def test_a_document_has_its_phase_and_what_went_wrong() -> None:
    state = MemoryState()
    installing, failed = (
        enums.UNATTENDED_INSTALL_PHASE_INSTALLING,
        enums.UNATTENDED_INSTALL_PHASE_FAILED,
    )
    await show_phase(state, installing)
    for text in (MAIN, "no config"):
        await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text.encode()))
        await show_phase(state, installing)
    assert await state.list(kinds.UNATTENDED_INSTALL_STATUS) == []
    await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=(MAIN + DOCUMENT).encode()))
    for phase, error in ((installing, ""), (failed, "no disk"), (installing, "")):
        await show_phase(state, phase, error)
        spec = (await state.get(*ids.UNATTENDED_INSTALL_STATUS)).spec
        assert (spec.phase, spec.error) == (phase, error)
