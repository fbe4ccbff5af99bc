"""Diagnostic of each volume that can't be used, or whose key slots are not as configured."""

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.runtime_pb2 import DiagnosticSpec
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class VolumeDiagnosticsController(Reconciler):
    """VolumeStatus → Diagnostic."""

    name = "block.VolumeDiagnosticsController"
    inputs = (Input(kinds.VOLUME_STATUS),)
    outputs = (Output(kinds.DIAGNOSTIC, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write one for each such volume."""
        async with runtime.track_outputs():
            for volume in await runtime.list(kinds.VOLUME_STATUS):
                message, details = "", list(volume.spec.encryption_failed_syncs)
                if volume.spec.phase == enums.VOLUME_PHASE_FAILED:
                    message, details = "can't be used", [volume.spec.error_message]
                elif details:
                    message = "is not encrypted as configured"
                if message:
                    spec = DiagnosticSpec(message=f"volume {volume.id} {message}", details=details)
                    await runtime.put(kinds.DIAGNOSTIC, f"volume-{volume.id.lower()}", spec)
