"""Manifests that the user adds: fetched or from the config, read as objects."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import trio
from google.protobuf.json_format import ParseError

from talos.api.definitions.k8s_pb2 import (
    ExtraManifest,
    ExtraManifestsConfigSpec,
    ManifestSpec,
    SingleManifest,
)
from talos.api.definitions.runtime_pb2 import DiagnosticSpec
from talos.config.effective import kubernetes
from talos.config.problem import ConfigError
from talos.config.read.nodes import plain
from talos.config.read.tree import Size, parse_documents
from talos.kubed.controllers.control_plane import read_control_plane_config
from talos.process.fetch import MAX_BYTES, FetchError, NotThereError, fetch
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output, Reconciler
from talos.resource.environment import read_environment
from talos.resource.objects import to_struct
from talos.system.logging import Log
from talos.system.urls import without_secrets

SIZE = Size(bytes=MAX_BYTES, nodes=500_000)
"""Of one manifest. Those of large operators have some megabytes and a hundred thousand values."""
DIAGNOSTIC = "extra-manifests"
MAX_CONCURRENT = 4
"""Fetches at the same time."""


class ExtraManifestsConfigController(Reconciler):
    """MachineConfig → ExtraManifestsConfig; on control plane nodes with Kubernetes."""

    name = "k8s.ExtraManifestsConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.EXTRA_MANIFESTS_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource."""
        config = await read_control_plane_config(runtime)
        async with runtime.track_outputs():
            if config is None:
                return
            spec = ExtraManifestsConfigSpec()
            for one in kubernetes.extra_manifests(config):
                spec.extra_manifests.add(
                    # By it the others name the manifest, and one without a name of its own has its URL's.
                    name=make_name(one.name),
                    url=one.url,
                    priority=one.priority,
                    extra_headers=one.headers,
                    inline_manifest=one.text,
                )
            await runtime.put(*ids.EXTRA_MANIFESTS_CONFIG, spec)


def make_name(name: str) -> str:
    """A name, which may be a URL, as statuses show it: without secrets, and still that of one manifest."""
    shown = without_secrets(name)
    return shown if "?" not in shown else f"{shown}#{hashlib.sha256(name.encode()).hexdigest()[:8]}"


@dataclass(slots=True)
class _Read:
    """What became of each manifest: its objects, or the reason why there are none."""

    objects: dict[bytes, ManifestSpec] = field(default_factory=dict[bytes, ManifestSpec])
    problems: dict[str, str] = field(default_factory=dict[str, str])
    is_final: bool = True
    """No other attempt can succeed where one has failed."""


class ExtraManifestController(Controller):
    """ExtraManifestsConfig, Environment → Manifest, Diagnostic.

    Each is fetched once, by the proxy of the environment; what fails is tried again.
    """

    name = "k8s.ExtraManifestController"
    inputs = (Input(*ids.EXTRA_MANIFESTS_CONFIG), Input(*ids.ENVIRONMENT))
    outputs = (Output(kinds.MANIFEST, shared=True), Output(kinds.DIAGNOSTIC, shared=True))

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[bytes, ManifestSpec] = {}

    async def run(self, runtime: ControllerRuntime) -> None:
        """Read what has changed; wait longer after each failure, unless the config changes."""
        async for _ in runtime.events():
            while not await self._reconcile(runtime):
                await runtime.wait_before_retry(runtime.count_failure())
            runtime.reset_backoff()

    async def _reconcile(self, runtime: ControllerRuntime) -> bool:
        """Write what could be read; whether nothing is left to try."""
        config = await runtime.get_or_none(*ids.EXTRA_MANIFESTS_CONFIG)
        wanted = list(config.spec.extra_manifests) if config else []
        read = await self._read_all(wanted, await read_environment(runtime))
        self._known = read.objects
        for name, reason in read.problems.items():
            self._log.once(f"the manifest {name} is left out: {reason}", key=f"manifest {name}")
        async with runtime.track_outputs():
            for manifest in wanted:
                spec = read.objects.get(_identity(manifest))
                if spec is not None:
                    await runtime.put(kinds.MANIFEST, f"{manifest.priority}-{manifest.name}", spec)
            if read.problems:
                details = [f"{name}: {reason}" for name, reason in sorted(read.problems.items())]
                spec = DiagnosticSpec(
                    message="manifests of the machine config can't be read", details=details
                )
                await runtime.put(kinds.DIAGNOSTIC, DIAGNOSTIC, spec)
        return read.is_final

    async def _read_all(self, wanted: Sequence[ExtraManifest], environment: Mapping[str, str]) -> _Read:
        read, places = _Read(), trio.CapacityLimiter(MAX_CONCURRENT)

        async def read_one(manifest: ExtraManifest) -> None:
            try:
                known = self._known.get(_identity(manifest))
                # Both take a while: the daemon answers meanwhile.
                read.objects[_identity(manifest)] = known or await trio.to_thread.run_sync(
                    read_manifest, manifest, environment, abandon_on_cancel=True, limiter=places
                )
            except (FetchError, NotThereError) as error:
                url = without_secrets(manifest.url)
                read.problems[manifest.name], read.is_final = f"{url}: {error}", False
            except ValueError as error:
                read.problems[manifest.name] = str(error)
                # What is at a URL may be mended.
                read.is_final = read.is_final and not manifest.url

        async with trio.open_nursery() as nursery:
            for manifest in wanted:
                nursery.start_soon(read_one, manifest)
        return read


def _identity(manifest: ExtraManifest) -> bytes:
    return manifest.SerializeToString(deterministic=True)


def read_manifest(manifest: ExtraManifest, environment: Mapping[str, str]) -> ManifestSpec:
    """The objects of a manifest; FetchError, NotThereError, and ValueError when it has other contents."""
    text: str | bytes = manifest.inline_manifest
    if manifest.url:
        text = fetch(manifest.url, manifest.extra_headers, environment).data
    items = [SingleManifest(object=make_struct(found)) for found in parse_objects(text)]
    return ManifestSpec(items=items)


def parse_objects(text: str | bytes) -> list[dict[str, Any]]:
    """The objects of a YAML stream, lists taken apart; ValueError with the place of the first mistake."""
    try:
        documents = parse_documents(text, size=SIZE)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    found: list[dict[str, Any]] = []
    for node in documents:
        value, line = plain(node), node.mark.line
        items: Sequence[object] = (value,)
        if isinstance(value, dict):
            content = cast("dict[str, Any]", value)
            if content.get("kind") == "List" and isinstance(content.get("items"), list):
                items = cast("list[object]", content["items"])
        for item in items:
            if not is_object(item):
                raise ValueError(f"line {line}: an object needs apiVersion, kind and metadata.name")
            found.append(cast("dict[str, Any]", item))
    return found


def is_object(value: object) -> bool:
    """Whether a value has what every object of Kubernetes has."""
    if not isinstance(value, dict):
        return False
    content = cast("Mapping[str, Any]", value)
    metadata = content.get("metadata")
    named = isinstance(metadata, dict) and isinstance(cast("dict[str, Any]", metadata).get("name"), str)
    return named and all(isinstance(content.get(key), str) for key in ("apiVersion", "kind"))


def make_struct(value: Mapping[str, Any]) -> Any:
    """The object for the State; ValueError when it has values that JSON can't have."""
    try:
        return to_struct(value)
    except ParseError as error:
        raise ValueError(f"{value['kind']} {value['metadata']['name']}: {error}") from None
