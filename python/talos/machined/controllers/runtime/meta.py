"""MetaController: META's values as resources."""

from functools import partial

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions import runtime_pb2
from talos.machined.node.meta_store import MetaStore
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.block.layout import META
from talos.system.logging import Log


class MetaController(Reconciler):
    """VolumeStatus of META → MetaKey and MetaLoad, the latter also when there certainly is no META.

    ``file`` is META where it is no volume.
    """

    name = "runtime.MetaController"
    inputs = (Input(kinds.VOLUME_STATUS, id=META.label),)
    outputs = (Output(kinds.META_KEY), Output(kinds.META_LOAD))

    def __init__(self, store: MetaStore, log: Log, file: str = "") -> None:
        self._store = store
        self._file = file
        self._log = log

    async def run(self, runtime: ControllerRuntime) -> None:
        """Reconcile after the store's changes, too."""
        self._store.listen(runtime.queue_reconcile)
        await super().run(runtime)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Load when there is something to load, then publish the values."""
        location = self._file or await _find_location(runtime)
        if location is None:
            return
        if location and self._store.device != location:
            try:
                await self._store.load(location)
            except OSError as error:
                self._log.warning("META can't be read", device=location, reason=str(error))
            except ValueError as error:
                self._log.warning(f"{error}: they are lost, it is empty now", device=location)
        async with runtime.track_outputs():
            for key, value in self._store.values.items():
                await runtime.modify(kinds.META_KEY, f"0x{key:02x}", partial(_fill, value=value))
            await runtime.modify(*ids.META_LOAD, _finish)


async def _find_location(runtime: ControllerRuntime) -> str | None:
    """The partition; empty when there is none, None while that is not known."""
    status = await runtime.get_or_none(kinds.VOLUME_STATUS, META.label)
    if status is None or status.spec.phase == enums.VOLUME_PHASE_WAITING:
        return None
    return status.spec.location if status.spec.phase == enums.VOLUME_PHASE_READY else ""


def _fill(spec: runtime_pb2.MetaKeySpec, value: bytes) -> None:
    spec.value = value.decode(errors="replace")


def _finish(spec: runtime_pb2.MetaLoadedSpec) -> None:
    spec.done = True
