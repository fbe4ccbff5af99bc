"""Probes of the config's trial checks, while a trial or an upgrade needs them; networkd runs them."""

from typing import override

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import HTTPProbeSpec, ProbeSpecSpec, TCPProbeSpec
from talos.api.timestamps import make_duration
from talos.config.active import read_config
from talos.config.effective.trial_checks import TrialCheck, list_trial_checks
from talos.machined.node.ports.upgrades import Trial
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

INTERVAL = 1.0
"""Seconds between two probes of a check."""


class TrialProbeController(Reconciler):
    """MachineConfig → ProbeSpec, on trial and before a release is written."""

    name = "runtime.TrialProbeController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.PROBE_SPEC, shared=True),)

    def __init__(self, upgrader: Trial) -> None:
        self._upgrader = upgrader

    @override
    async def run(self, runtime: ControllerRuntime) -> None:
        """Follow the upgrade, too."""
        self._upgrader.listen(runtime.queue_reconcile)
        await super().run(runtime)

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        config = await read_config(runtime) if self._upgrader.needs_probes else None
        async with runtime.track_outputs():
            for check in list_trial_checks(config) if config else ():
                await put_probe(runtime, check)


async def put_probe(runtime: ControllerRuntime, check: TrialCheck, last: int = 0) -> None:
    """Have networkd probe a check unless it is an expression; ``last`` as in ``make_probe_id``."""
    if probe := check.make_probe_id(last):
        await runtime.put(kinds.PROBE_SPEC, probe, make_probe(check))


def make_probe(check: TrialCheck) -> ProbeSpecSpec:
    """The probe of a check that is no expression; one failure counts."""
    spec = ProbeSpecSpec(
        interval=make_duration(INTERVAL), config_layer=enums_pb2.CONFIG_MACHINE_CONFIGURATION
    )
    timeout = make_duration(check.timeout)
    if check.endpoint:
        spec.tcp.CopyFrom(TCPProbeSpec(endpoint=check.endpoint, timeout=timeout))
    else:
        spec.http.CopyFrom(HTTPProbeSpec(timeout=timeout))
        spec.http.url.full_path = check.url
    return spec
