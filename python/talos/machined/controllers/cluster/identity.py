"""NodeIdentityController: the node's id is the one in STATE."""

from collections.abc import Callable
from pathlib import Path

import trio

from talos.api.definitions.cluster_pb2 import IdentitySpec
from talos.machined.node.identity import Identity, keep_identity
from talos.machined.node.resources import IDENTITY_OWNER
from talos.machined.node.state_folder import find_state_folder
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.logging import Log


class NodeIdentityController(Reconciler):
    """VolumeMountStatus of STATE → Identity and /etc/machine-id.

    Until STATE is mounted, the id is the one generated at boot.
    """

    name = IDENTITY_OWNER
    inputs = (Input(kinds.VOLUME_MOUNT_STATUS),)
    outputs = (Output(kinds.IDENTITY),)

    def __init__(self, identity: Identity, show: Callable[[Identity], None], log: Log) -> None:
        self._identity = identity
        self._shown = identity
        self._show = show
        self._log = log
        self._is_saved = False

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Adopt the id in STATE, or write the current one there."""
        folder = await find_state_folder(runtime)
        if folder is not None and not self._is_saved:
            await self._keep(folder)
        if self._identity != self._shown:
            self._show(self._identity)
            self._shown = self._identity
        await runtime.put(*ids.IDENTITY, IdentitySpec(node_id=self._identity.node_id))

    async def _keep(self, folder: Path) -> None:
        try:
            self._identity = await trio.to_thread.run_sync(keep_identity, folder, self._identity)
            self._is_saved = True
        except OSError as error:
            # The node runs with the current id; the next boot generates another.
            self._log.warning("the node's id can't be kept", reason=error.strerror)
        except ValueError as error:
            self._log.warning("the node's id in STATE can't be read, it stays unused", reason=str(error))
