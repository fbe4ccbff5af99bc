"""The configuration of the instance for Kubernetes, and what it reads about registries.

https://github.com/containerd/containerd/blob/release/1.7/docs/cri/config.md and docs/hosts.md there
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from talos.api.definitions.cri_pb2 import RegistriesConfigSpec, RegistryTLSConfig
from talos.machined.containerd.client import CRI_ROOT, CRI_SOCKET
from talos.machined.containerd.registry.hosts import ANY, find_endpoints
from talos.machined.containerd.toml import format_toml

CONFIG = "/etc/cri/containerd.toml"
PARTS = "/etc/cri/conf.d"
MERGED = f"{PARTS}/cri.toml"
"""The settings of plugins: containerd replaces a plugin's whole section by that of an imported file."""
STATUS = "cri/conf.d/cri.toml"
"""The id under which that file is announced; containerd's service waits for it."""
BASE_SPEC = f"{PARTS}/base-spec.json"
HOSTS = f"{PARTS}/hosts"
"""Where containerd looks for a registry's mirrors at each pull: a folder for each registry."""
SANDBOX_IMAGE = "registry.k8s.io/pause:3.10.1"
_CRI = "io.containerd.grpc.v1.cri"
_CAPABILITIES = ["pull", "resolve"]


def make_config() -> str:
    """What does not change while a machine runs."""
    return format_toml(
        {
            "version": 2,
            "root": CRI_ROOT,
            "state": "/run/containerd",
            "imports": [MERGED],
            "disabled_plugins": [
                "io.containerd.nri.v1.nri",
                "io.containerd.tracing.processor.v1.otlp",
                "io.containerd.internal.v1.tracing",
                "io.containerd.snapshotter.v1.aufs",
                "io.containerd.snapshotter.v1.btrfs",
                "io.containerd.snapshotter.v1.devmapper",
                "io.containerd.snapshotter.v1.zfs",
            ],
            "grpc": {"address": CRI_SOCKET},
            "debug": {"level": "info", "format": "json"},
        }
    )


def make_base(*, restrict_oom_score: bool, has_base_spec: bool) -> dict[str, Any]:
    """The settings of plugins before the user's.

    ``restrict_oom_score``: the kernel refuses scores below the launcher's, so no container may have one.
    """
    runc: dict[str, Any] = {"runtime_type": "io.containerd.runc.v2"}
    if has_base_spec:
        runc["base_runtime_spec"] = BASE_SPEC
    return {
        "version": 2,
        "plugins": {
            "io.containerd.internal.v1.opt": {"path": f"{CRI_ROOT}/opt"},
            _CRI: {
                "sandbox_image": SANDBOX_IMAGE,
                "enable_unprivileged_ports": True,
                "enable_unprivileged_icmp": True,
                "restrict_oom_score_adj": restrict_oom_score,
                "containerd": {
                    "default_runtime_name": "runc",
                    "discard_unpacked_layers": True,
                    "runtimes": {"runc": runc},
                },
                "registry": {"config_path": HOSTS},
            },
        },
    }


def make_credentials(registries: RegistriesConfigSpec) -> dict[str, Any]:
    """The credentials of registries, as a part of those settings."""
    configs = {
        host: {
            "auth": {
                name: value
                for name, value in (
                    ("username", auth.registry_username),
                    ("password", auth.registry_password),
                    ("auth", auth.registry_auth),
                    ("identitytoken", auth.registry_identity_token),
                )
                if value
            }
        }
        for host, auth in sorted(registries.registry_auths.items())
    }
    return {"plugins": {_CRI: {"registry": {"configs": configs}}}} if configs else {}


def make_hosts(registries: RegistriesConfigSpec) -> Mapping[str, str]:
    """Files below :data:`HOSTS`, by name: what is to be asked for each registry's images."""
    files: dict[str, str] = {}
    for registry in sorted({*registries.registry_mirrors, *registries.registry_tl_ss}):
        folder = make_folder_name(registry)
        files |= _make_registry(registries, registry, folder)
    return files


def _make_registry(registries: RegistriesConfigSpec, registry: str, folder: str) -> Mapping[str, str]:
    files: dict[str, str] = {}
    mirror = registries.registry_mirrors.get(registry) or registries.registry_mirrors.get(ANY)
    hosts: dict[str, Any] = {}
    for endpoint in find_endpoints(registries, registry):
        if registry == ANY and not endpoint.namespace:
            continue  # each registry itself, which containerd tries last
        parts = urlsplit(endpoint.base)
        entry: dict[str, Any] = {"capabilities": _CAPABILITIES, "override_path": True}
        tls = registries.registry_tl_ss.get(parts.netloc)
        if tls is not None:
            settings, certificates = _make_tls(tls, folder, make_folder_name(parts.netloc))
            entry |= settings
            files |= certificates
        hosts[endpoint.base] = entry
    document: dict[str, Any] = {"host": hosts}
    if mirror is not None and mirror.mirror_skip_fallback and hosts:
        # Without a server of its own the registry itself would be asked at last.
        last = next(reversed(hosts))
        document = {"server": last, **hosts[last], "host": hosts}
    files[f"{folder}/hosts.toml"] = format_toml(document)
    return files


def _make_tls(tls: RegistryTLSConfig, folder: str, name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings of TLS for one host, and the files that they name."""
    settings: dict[str, Any] = {}
    files: dict[str, str] = {}
    if tls.tlsca:
        settings["ca"] = f"{HOSTS}/{folder}/{name}-ca.crt"
        files[f"{folder}/{name}-ca.crt"] = tls.tlsca.decode(errors="replace")
    identity = tls.tls_client_identity
    if identity.crt or identity.key:
        names = (f"{folder}/{name}-client.crt", f"{folder}/{name}-client.key")
        settings["client"] = [[f"{HOSTS}/{file}" for file in names]]
        files |= zip(
            names, (identity.crt.decode(errors="replace"), identity.key.decode(errors="replace")), strict=True
        )
    if tls.tls_insecure_skip_verify:
        settings["skip_verify"] = True
    return settings, files


def make_folder_name(host: str) -> str:
    """The folder of a registry: ``host_5000_`` stands for ``host:5000``, ``_default`` for all others."""
    if host == ANY:
        return "_default"
    name, colon, port = host.rpartition(":")
    folder = f"{name}_{port}_" if colon and port.isdecimal() else host
    # A name comes from the config, which may hold anything.
    return folder.replace("/", "_").lstrip(".") or "_"
