"""RegistryConfig: where images come from, and with which credentials."""

from talos.api.common import common_pb2
from talos.api.definitions import cri_pb2, enums_pb2
from talos.config.active import read_config
from talos.config.documents.cri.registry_auth import RegistryAuthConfig
from talos.config.documents.cri.registry_mirror import RegistryMirrorConfig
from talos.config.documents.cri.registry_tls import RegistryTLSConfig
from talos.config.documents.v1alpha1.registries import RegistriesConfig, RegistryConfig
from talos.config.model import Config
from talos.images.cache.places import ENDPOINT
from talos.images.registry.hosts import ANY
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class RegistriesConfigController(Reconciler):
    """MachineConfig, ImageCacheConfig → RegistryConfig: a cache that is served is tried before all others."""

    name = "cri.RegistriesConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG), Input(*ids.IMAGE_CACHE_CONFIG))
    outputs = (Output(kinds.REGISTRY_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource, empty without a config."""
        config = await read_config(runtime)
        spec = make_registries(config) if config else cri_pb2.RegistriesConfigSpec()
        cache = await runtime.get_or_none(*ids.IMAGE_CACHE_CONFIG)
        if cache is not None and cache.spec.status == enums_pb2.IMAGE_CACHE_STATUS_READY:
            add_cache(spec)
        await runtime.put(*ids.REGISTRY_CONFIG, spec)


def add_cache(spec: cri_pb2.RegistriesConfigSpec) -> None:
    """Have the node's cache as the first mirror of each registry."""
    for name in {ANY, *spec.registry_mirrors}:
        mirror = spec.registry_mirrors[name]
        configured = [*mirror.mirror_endpoints]
        del mirror.mirror_endpoints[:]
        mirror.mirror_endpoints.add(endpoint_endpoint=ENDPOINT)
        mirror.mirror_endpoints.extend(configured)


def make_registries(config: Config) -> cri_pb2.RegistriesConfigSpec:
    """The configured registries; documents override the main document."""
    spec = cri_pb2.RegistriesConfigSpec()
    old = config.machine.registries if config.machine else None
    if old is not None:
        _add_old(spec, old)
    for mirror in config.find_all(RegistryMirrorConfig):
        endpoints = [
            cri_pb2.RegistryEndpointConfig(
                endpoint_endpoint=endpoint.url, endpoint_override_path=bool(endpoint.override_path)
            )
            for endpoint in mirror.endpoints or ()
        ]
        spec.registry_mirrors[mirror.name].CopyFrom(
            cri_pb2.RegistryMirrorConfig(
                mirror_endpoints=endpoints, mirror_skip_fallback=bool(mirror.skip_fallback)
            )
        )
    for auth in config.find_all(RegistryAuthConfig):
        spec.registry_auths[auth.name].CopyFrom(
            _make_auth(auth.username, auth.password, auth.auth, auth.identity_token)
        )
    for tls in config.find_all(RegistryTLSConfig):
        identity = tls.client_identity
        pair = ((identity.cert or "").encode(), (identity.key or "").encode()) if identity else None
        spec.registry_tl_ss[tls.name].CopyFrom(
            _make_tls(pair, (tls.ca or "").encode(), is_insecure=bool(tls.insecure_skip_verify))
        )
    return spec


def _add_old(spec: cri_pb2.RegistriesConfigSpec, old: RegistriesConfig) -> None:
    for name, mirror in (old.mirrors or {}).items():
        endpoints = [
            cri_pb2.RegistryEndpointConfig(
                endpoint_endpoint=url, endpoint_override_path=bool(mirror.override_path)
            )
            for url in mirror.endpoints
        ]
        spec.registry_mirrors[name].CopyFrom(
            cri_pb2.RegistryMirrorConfig(
                mirror_endpoints=endpoints, mirror_skip_fallback=bool(mirror.skip_fallback)
            )
        )
    for name, access in (old.config or {}).items():
        _add_access(spec, name, access)


def _add_access(spec: cri_pb2.RegistriesConfigSpec, name: str, access: RegistryConfig) -> None:
    auth, tls = access.auth, access.tls
    if auth is not None:
        made = _make_auth(auth.username, auth.password, auth.auth, auth.identity_token)
        spec.registry_auths[name].CopyFrom(made)
    if tls is not None:
        identity = tls.client_identity
        pair = (identity.crt or b"", identity.key or b"") if identity else None
        made_tls = _make_tls(pair, tls.ca or b"", is_insecure=bool(tls.insecure_skip_verify))
        spec.registry_tl_ss[name].CopyFrom(made_tls)


def _make_auth(
    username: str | None, password: str | None, auth: str | None, token: str | None
) -> cri_pb2.RegistryAuthConfig:
    return cri_pb2.RegistryAuthConfig(
        registry_username=username or "",
        registry_password=password or "",
        registry_auth=auth or "",
        registry_identity_token=token or "",
    )


def _make_tls(pair: tuple[bytes, bytes] | None, ca: bytes, *, is_insecure: bool) -> cri_pb2.RegistryTLSConfig:
    spec = cri_pb2.RegistryTLSConfig(tlsca=ca, tls_insecure_skip_verify=is_insecure)
    if pair is not None:
        spec.tls_client_identity.CopyFrom(common_pb2.PEMEncodedCertificateAndKey(crt=pair[0], key=pair[1]))
    return spec
