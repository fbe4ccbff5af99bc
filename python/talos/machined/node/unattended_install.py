"""UnattendedInstallStatus: what became of the installation that an UnattendedInstallConfig requests."""

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.runtime_pb2 import UnattendedInstallStatusSpec
from talos.config.active import load_config
from talos.config.documents.runtime.unattended_install import UnattendedInstallConfig
from talos.config.problem import ConfigError
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.state import State

OWNER = "runtime.UnattendedInstallController"


async def show_phase(state: State, phase: enums.RuntimeUnattendedInstallPhase, error: str = "") -> None:
    """Write the resource, where the config has such a document."""
    try:
        config = await load_config(state)
    except ConfigError:
        return
    if config is not None and config.find(UnattendedInstallConfig) is not None:
        spec = UnattendedInstallStatusSpec(phase=phase, error=error)
        await put(state, *ids.UNATTENDED_INSTALL_STATUS, spec, owner=OWNER)
