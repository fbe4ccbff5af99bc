"""PersistenceController: writes the config for the next boot as soon as STATE is mounted."""

from pathlib import Path

import trio

from talos.machined.node.config_store import CONFIG_FILE, write_config
from talos.machined.node.state_folder import find_state_folder
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Reconciler
from talos.system.logging import Log


class PersistenceController(Reconciler):
    """MachineConfig ``persistent`` and STATE's mount → the file. A full disk is retried."""

    name = "config.PersistenceController"
    inputs = (Input(*ids.MACHINE_CONFIG_PERSISTENT), Input(kinds.VOLUME_MOUNT_STATUS))

    def __init__(self, log: Log) -> None:
        self._log = log

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the file when its content changes."""
        config = await runtime.get_or_none(*ids.MACHINE_CONFIG_PERSISTENT)
        folder = await find_state_folder(runtime)
        if config is None or folder is None:
            return
        data = config.spec.yaml_marshalled
        if await trio.to_thread.run_sync(_keep, folder, data):
            self._log.info("the machine config is kept", place=str(folder))


def _keep(folder: Path, data: bytes) -> bool:
    try:
        if (folder / CONFIG_FILE).read_bytes() == data:
            return False
    except FileNotFoundError:
        pass
    write_config(folder, data)
    return True
