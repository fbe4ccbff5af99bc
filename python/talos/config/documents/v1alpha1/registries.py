"""``machine.registries``."""

from collections.abc import Mapping
from dataclasses import dataclass

from talos.config.documents.certificate import PEMEncodedCertificateAndKey
from talos.config.schema import Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryMirrorConfig(Section):
    """Mirrors of a registry."""

    endpoints: tuple[str, ...] = setting("servers to try, in order", default=())
    override_path: bool | None = setting("the URL has the whole path already")
    skip_fallback: bool | None = setting("never use the registry itself")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryTLSConfig(Section):
    """TLS settings."""

    client_identity: PEMEncodedCertificateAndKey | None = setting("certificate to authenticate with")
    ca: bytes | None = setting("authorities to trust")
    insecure_skip_verify: bool | None = setting("do not check the server's certificate")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAuthConfig(Section):
    """Credentials."""

    username: str | None = setting("user name")
    password: str | None = setting("password", secret=True)
    auth: str | None = setting("ready-made value of the authorization header", secret=True)
    identity_token: str | None = setting("token in place of a password", secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryConfig(Section):
    """Access to registries."""

    tls: RegistryTLSConfig | None = setting("TLS settings")
    auth: RegistryAuthConfig | None = setting("credentials")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistriesConfig(Section):
    """Image registries."""

    mirrors: Mapping[str, RegistryMirrorConfig] | None = setting("where images are pulled from instead")
    config: Mapping[str, RegistryConfig] | None = setting("access to registries")
