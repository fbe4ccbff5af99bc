"""Info and DiscoveryConfig: the cluster's identity, and its discovery settings."""

import base64
from contextlib import suppress
from urllib.parse import urlsplit

from talos.api.definitions.cluster_pb2 import ConfigSpec, InfoSpec, ServiceEndpoint
from talos.config.active import read_config
from talos.config.effective import cluster as effective
from talos.config.model import Config
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

_PORTS = {"http": 80, "https": 443, "grpc": 443}


class ClusterInfoController(Reconciler):
    """MachineConfig → Info; none before there is a config."""

    name = "cluster.InfoController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.INFO),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            if config is not None:
                spec = InfoSpec(
                    cluster_id=effective.cluster_id(config), cluster_name=effective.cluster_name(config)
                )
                await runtime.put(*ids.CLUSTER_INFO, spec)


class DiscoveryConfigController(Reconciler):
    """MachineConfig → DiscoveryConfig."""

    name = "cluster.ConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.DISCOVERY_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource; discovery is off without a config."""
        config = await read_config(runtime)
        await runtime.put(*ids.DISCOVERY_CONFIG, make_discovery(config) if config else ConfigSpec())


def make_discovery(config: Config) -> ConfigSpec:
    """The configured discovery."""
    endpoints = [_make_endpoint(name, url) for name, url in effective.discovery_endpoints(config).items()]
    in_kubernetes = effective.has_kubernetes_registry(config)
    spec = ConfigSpec(
        discovery_enabled=bool(endpoints) or in_kubernetes, registry_kubernetes_enabled=in_kubernetes
    )
    if endpoints:
        spec.registry_service_enabled = True
        spec.service_endpoint = endpoints[0].endpoint
        spec.service_endpoint_insecure = endpoints[0].insecure
        spec.service_endpoints.extend(endpoints)
        spec.service_cluster_id = effective.cluster_id(config)
        # What is no base64 has no bytes of a key: who needs one reports it.
        with suppress(ValueError):
            spec.service_encryption_key = base64.b64decode(effective.cluster_secret(config), validate=True)
    return spec


def _make_endpoint(name: str, url: str) -> ServiceEndpoint:
    parts = urlsplit(url)
    port = parts.port or _PORTS.get(parts.scheme, 443)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return ServiceEndpoint(name=name, endpoint=f"{host}:{port}", insecure=parts.scheme == "http")
