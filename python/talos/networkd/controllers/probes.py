"""ProbeSpec: checks of the network from the config or the platform; ProbeStatus: their results."""

from collections.abc import Mapping

import trio
from google.protobuf.duration_pb2 import Duration

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import (
    HTTPProbeSpec,
    PlatformConfigSpec,
    ProbeSpecSpec,
    ProbeStatusSpec,
    TCPProbeSpec,
)
from talos.api.timestamps import make_duration
from talos.config import values
from talos.config.active import PARTIAL_CONFIG_INPUTS, read_partial_config
from talos.config.documents.network.http_probe import HTTPProbeConfig
from talos.config.documents.network.tcp_probe import TCPProbeConfig
from talos.config.effective.trial_checks import is_trial_probe
from talos.config.model import Config
from talos.networkd.platform import read_platform
from talos.networkd.probe import ProbeError, check_http, check_tcp
from talos.resource import ids, kinds
from talos.resource.changes import copy_spec
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output, Reconciler
from talos.resource.environment import read_environment
from talos.resource.resource import Phase
from talos.system.logging import Log

INTERVAL, TIMEOUT = 1.0, 10.0
"""Seconds, where the config has none."""
MIN_INTERVAL = 0.1
"""Seconds: a shorter one would only load the node."""
MAX_PROBES = 64


class ProbeConfigController(Reconciler):
    """MachineConfig, PlatformConfig → ProbeSpec."""

    name = "network.ProbeConfigController"
    inputs = (*PARTIAL_CONFIG_INPUTS, Input(kinds.PLATFORM_CONFIG))
    outputs = (Output(kinds.PROBE_SPEC, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Follow the config, which overrides the platform's probes of the same target."""
        specs: dict[str, ProbeSpecSpec] = {}
        platform = await read_platform(runtime)
        if platform is not None:
            specs |= {probe_id(spec): spec for spec in make_platform_probes(platform)}
        config = await read_partial_config(runtime)
        if config is not None:
            specs |= {probe_id(spec): spec for spec in make_probes(config)}
        async with runtime.track_outputs():
            for spec_id, spec in list(specs.items())[:MAX_PROBES]:
                await runtime.put(kinds.PROBE_SPEC, spec_id, spec)


class ProbeController(Controller):
    """ProbeSpec → ProbeStatus: a task for each probe."""

    name = "network.ProbeController"
    inputs = (Input(kinds.PROBE_SPEC), Input(*ids.ENVIRONMENT))
    outputs = (Output(kinds.PROBE_STATUS),)

    def __init__(self, log: Log) -> None:
        self._log = log
        self._running: dict[str, tuple[ProbeSpecSpec, trio.CancelScope]] = {}
        self._results: dict[str, ProbeStatusSpec] = {}
        self._environment: Mapping[str, str] = {}

    async def run(self, runtime: ControllerRuntime) -> None:
        """Follow the specs until cancelled."""
        self._running.clear()
        self._results.clear()
        async with trio.open_nursery() as nursery:
            async for _ in runtime.events():
                await self._follow(runtime, nursery)
                async with runtime.track_outputs():
                    for probe, status in self._results.items():
                        await runtime.put(kinds.PROBE_STATUS, probe, status)
                runtime.reset_backoff()

    async def _follow(self, runtime: ControllerRuntime, nursery: trio.Nursery) -> None:
        self._environment = await read_environment(runtime)
        wanted = {
            resource.id: resource.spec
            for resource in await runtime.list(kinds.PROBE_SPEC)
            if resource.metadata.phase is Phase.RUNNING
        }
        for probe, (spec, scope) in list(self._running.items()):
            if wanted.get(probe) != spec:
                scope.cancel()
                del self._running[probe]
                self._results.pop(probe, None)
        for probe, spec in wanted.items():
            if probe not in self._running:
                scope = trio.CancelScope()
                self._running[probe] = copy_spec(spec), scope
                nursery.start_soon(self._probe, runtime, probe, self._running[probe])

    async def _probe(
        self, runtime: ControllerRuntime, probe: str, running: tuple[ProbeSpecSpec, trio.CancelScope]
    ) -> None:
        spec, scope = running
        failures = 0
        interval = max(_seconds(spec.interval, INTERVAL), MIN_INTERVAL)
        with scope:
            while True:
                begin = trio.current_time()
                error = await self._check(probe, spec)
                failures = failures + 1 if error else 0
                # A failure counts when there are more in a row than the threshold allows.
                status = ProbeStatusSpec(success=failures <= spec.failure_threshold, last_error=error)
                if self._running.get(probe) == running and self._results.get(probe) != status:
                    before = self._results.get(probe)
                    if before is None or before.success != status.success:
                        result = "succeeds" if status.success else f"fails: {error}"
                        self._log.info(f"probe {probe} {result}")
                    self._results[probe] = status
                    runtime.queue_reconcile()
                await trio.sleep_until(max(begin + interval, trio.current_time()))

    async def _check(self, probe: str, spec: ProbeSpecSpec) -> str:
        try:
            if spec.HasField("tcp"):
                await check_tcp(spec.tcp.endpoint, _seconds(spec.tcp.timeout, TIMEOUT))
            else:
                await check_http(
                    spec.http.url.full_path,
                    _seconds(spec.http.timeout, TIMEOUT),
                    self._environment,
                    takes_redirection=not is_trial_probe(probe),
                )
        except ProbeError as error:
            return str(error)
        return ""


def make_probes(config: Config) -> list[ProbeSpecSpec]:
    """The probes of a config."""
    specs: list[ProbeSpecSpec] = []
    for document in (*config.find_all(TCPProbeConfig), *config.find_all(HTTPProbeConfig)):
        spec = ProbeSpecSpec(
            interval=_configured(document.interval, INTERVAL),
            failure_threshold=document.failure_threshold or 0,
            config_layer=enums_pb2.CONFIG_MACHINE_CONFIGURATION,
        )
        timeout = _configured(document.timeout, TIMEOUT)
        if isinstance(document, TCPProbeConfig):
            spec.tcp.CopyFrom(TCPProbeSpec(endpoint=document.endpoint, timeout=timeout))
        else:
            http = HTTPProbeSpec(timeout=timeout)
            http.url.full_path = document.url
            spec.http.CopyFrom(http)
        specs.append(spec)
    return specs


def make_platform_probes(config: PlatformConfigSpec) -> list[ProbeSpecSpec]:
    """The probes of a platform."""
    specs = [copy_spec(spec) for spec in config.probes if spec.HasField("tcp") or spec.HasField("http")]
    for spec in specs:
        spec.config_layer = enums_pb2.CONFIG_PLATFORM
    return specs


def probe_id(spec: ProbeSpecSpec) -> str:
    """``tcp:example.org:80`` or ``http:https://example.org/``."""
    return f"tcp:{spec.tcp.endpoint}" if spec.HasField("tcp") else f"http:{spec.http.url.full_path}"


def _configured(wanted: values.Duration | None, default: float) -> Duration:
    """A duration of the config as the API has it."""
    return make_duration(wanted.seconds if wanted else default)


def _seconds(duration: Duration, default: float) -> float:
    return duration.ToNanoseconds() / 1e9 or default
