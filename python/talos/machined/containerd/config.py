"""The configuration of the instance for Kubernetes, and what it reads about registries.

https://github.com/containerd/containerd/blob/release/2.4/docs/cri/config.md and docs/hosts.md there
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from talos.api.definitions.cri_pb2 import RegistriesConfigSpec, RegistryTLSConfig
from talos.extensions.cri import PARTS
from talos.images.registry.hosts import ANY, find_endpoints
from talos.machined.containerd.client import CRI_ROOT, CRI_SOCKET
from talos.machined.containerd.toml import format_toml
from talos.system.errors import UserError
from talos.system.parsed import as_object

CONFIG = "/etc/cri/containerd.toml"
VERSION = 3
"""Of the format of what is written here. containerd reads a file by its own ``version``."""
VERSIONS = range(1, 5)
"""Of the formats that it reads."""
MERGED = f"{PARTS}/cri.toml"
"""The settings of plugins."""
STATUS = "cri/conf.d/cri.toml"
"""The id under which that file is announced; containerd's service waits for it."""
BASE_SPEC = f"{PARTS}/base-spec.json"
HOSTS = f"{PARTS}/hosts"
"""Where containerd looks for a registry's mirrors at each pull: a folder for each registry."""
SANDBOX_IMAGE = "registry.k8s.io/pause:3.10.2"
NRI_SOCKET = "/run/nri/nri.sock"
"""Where plugins of the node resource interface connect: containerd's own choice is below /var/run."""
NRI_PLUGINS = "/usr/local/lib/nri/plugins"
"""Those that containerd starts itself. Extensions bring them: its own choice, /opt, is writable."""
_IMAGES, _RUNTIME = "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"
_NRI = "io.containerd.nri.v1.nri"
_OLD_CRI = "io.containerd.grpc.v1.cri"
_OLD_PLUGINS = ("cri", _OLD_CRI)
"""What has the settings of images and of the runtime in the formats 1 and 2."""
_DIFF = "io.containerd.service.v1.diff-service"
_UNPACK = "/usr/sbin/unpack-layer"
"""machined/containerd/layer.py"""
_ARCHIVE = "application/vnd.oci.image.layer.v1.tar"
_LAYERS = (
    _ARCHIVE,
    f"{_ARCHIVE}+gzip",
    f"{_ARCHIVE}+zstd",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
    "application/vnd.docker.image.rootfs.foreign.diff.tar",
    "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.foreign.diff.tar.zstd",
)
UNUSED = (
    "io.containerd.internal.v1.tracing",
    "io.containerd.snapshotter.v1.blockfile",
    "io.containerd.snapshotter.v1.erofs",
    "io.containerd.tracing.processor.v1.otlp",
)
"""Plugins that neither instance uses."""
KUBERNETES = (
    _IMAGES,
    _NRI,
    _OLD_CRI,
    _RUNTIME,
    "io.containerd.podsandbox.controller.v1.podsandbox",
    "io.containerd.sandbox.controller.v1.shim",
)
"""Plugins of Kubernetes' part."""
_CAPABILITIES = ["pull", "resolve"]


def make_path(version: object) -> str:
    """The file of the user's settings in another version's format: containerd applies them last."""
    return f"{PARTS}/cri-{version}.toml"


def find_version(part: Mapping[str, Any]) -> int:
    """The version of the format that a piece of configuration is in; UserError.

    One without a version is in that of containerd 1, which is 2, where it has settings for that one's plugin.
    """
    plugins = part.get("plugins")
    names = set(cast("Mapping[str, Any]", plugins)) if isinstance(plugins, Mapping) else set[str]()
    is_old = _OLD_CRI in names and not names & {_IMAGES, _RUNTIME}
    version = part.get("version", 2 if is_old else VERSION)
    if type(version) is not int or version not in VERSIONS:
        raise UserError(
            f"its version is {version!r}", hint=f"this containerd reads {VERSIONS[0]} to {VERSIONS[-1]}"
        )
    return version


def make_unpacking(root: str) -> dict[str, Any]:
    """Have each layer unpacked by our program, bounded by the room on the disk of containerd's root.

    It is on the disk before containerd records it: after a power cut there would be empty files for good.
    """
    unpack = {"accepts": [*_LAYERS], "returns": _ARCHIVE, "path": _UNPACK, "args": [root]}
    return {"stream_processors": {"unpack": unpack}, "plugins": {_DIFF: {"sync_fs": True}}}


def make_config() -> str:
    """What does not change while a machine runs."""
    return format_toml(
        {
            "version": VERSION,
            "root": CRI_ROOT,
            "state": "/run/containerd",
            "imports": [MERGED, make_path("*")],
            "disabled_plugins": [*UNUSED],
            "grpc": {"address": CRI_SOCKET},
            "debug": {"level": "info", "format": "json"},
            **make_unpacking(CRI_ROOT),
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
        "version": VERSION,
        "plugins": {
            "io.containerd.internal.v1.opt": {"path": f"{CRI_ROOT}/opt"},
            _IMAGES: {
                "discard_unpacked_layers": True,
                "use_local_image_pull": True,
                "pinned_images": {"sandbox": SANDBOX_IMAGE},
                "registry": {"config_path": HOSTS},
            },
            _RUNTIME: {
                "enable_unprivileged_ports": True,
                "enable_unprivileged_icmp": True,
                "restrict_oom_score_adj": restrict_oom_score,
                "containerd": {"default_runtime_name": "runc", "runtimes": {"runc": runc}},
            },
            _NRI: {"socket_path": NRI_SOCKET, "plugin_path": NRI_PLUGINS},
        },
    }


def find_sandbox_image(settings: Iterable[Mapping[str, Any]]) -> str:
    """The image that each pod begins with, by files in the order in which containerd applies them."""
    image = SANDBOX_IMAGE
    for table in settings:
        plugins = as_object(table.get("plugins"))
        image = as_object(as_object(plugins.get(_IMAGES)).get("pinned_images")).get("sandbox", image)
        for old in _OLD_PLUGINS:
            image = as_object(plugins.get(old)).get("sandbox_image", image)
    return str(image)


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
    return {"plugins": {_IMAGES: {"registry": {"configs": configs}}}} if configs else {}


def make_hosts(registries: RegistriesConfigSpec) -> Mapping[str, str]:
    """Files below :data:`HOSTS`, by name: what serves each registry's images."""
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
        # Without a server of its own the registry itself would be tried at last.
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
