"""Where an image is fetched from: the mirrors of its registry in their order, then the registry itself."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from talos.api.definitions.cri_pb2 import RegistriesConfigSpec, RegistryTLSConfig
from talos.images.reference import DEFAULT_REGISTRY
from talos.images.rules import Rule
from talos.system.errors import UserError

DOCKER_HOST = "registry-1.docker.io"
"""Where docker.io's images are."""
ANY = "*"
"""The mirrors of every registry that has none of its own."""
_LOCAL = ("localhost", "127.", "[::1]")


class RegistryError(Exception):
    """A server failed. ``status`` is its HTTP status, 0 when there was none; ``temporary``: try again.

    ``reached`` is whether there was a connection: not so when its name does not resolve, or TLS fails.
    """

    def __init__(
        self, message: str, *, status: int = 0, temporary: bool = False, reached: bool = True
    ) -> None:
        super().__init__(message)
        self.status = status
        self.temporary = temporary
        self.reached = reached


class NoSuchImageError(UserError):
    """No server that was tried has the image."""


class UnavailableRegistryError(UserError):
    """No server that was tried has given the image, and one could not be reached, or fails at the moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The registries of the config, its environment variables, which may name proxies, and its rules."""

    registries: RegistriesConfigSpec
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    rules: tuple[Rule, ...] = ()
    """Which images must be signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """How a registry is convinced. Never shown."""

    username: str = ""
    password: str = ""
    identity_token: str = ""

    def __repr__(self) -> str:
        return "Credentials()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server: ``base`` is the URL up to and with ``/v2``. ``namespace`` is the registry that it mirrors."""

    base: str
    namespace: str = ""

    @property
    def host(self) -> str:
        """Host and port, by which settings are found."""
        return urlsplit(self.base).netloc


def find_endpoints(registries: RegistriesConfigSpec, registry: str) -> tuple[Endpoint, ...]:
    """The servers to try for images of a registry; UserError when the config leaves none."""
    mirrors = registries.registry_mirrors
    mirror = mirrors.get(registry) or mirrors.get(ANY)
    found = [
        Endpoint(
            base=make_base(entry.endpoint_endpoint, override=entry.endpoint_override_path),
            namespace=registry,
        )
        for entry in (mirror.mirror_endpoints if mirror else ())
    ]
    if mirror is None or not mirror.mirror_skip_fallback:
        found.append(Endpoint(base=find_default(registry)))
    if not found:
        raise UserError(
            "its mirror has no endpoints, and the registry itself is not to be used", where=registry
        )
    return tuple(found)


def make_base(url: str, *, override: bool) -> str:
    """An endpoint's URL with the path of the registry protocol."""
    url = url.rstrip("/")
    return url if override or url.endswith("/v2") else f"{url}/v2"


def find_default(registry: str) -> str:
    """The base of a registry that nothing is configured for."""
    host = DOCKER_HOST if registry == DEFAULT_REGISTRY else registry
    return f"{'http' if host.startswith(_LOCAL) else 'https'}://{host}/v2"


def find_credentials(registries: RegistriesConfigSpec, host: str) -> Credentials | None:
    """The credentials for a server; UserError when they can't be read."""
    auths = registries.registry_auths
    auth = auths.get(host) or (auths.get(DEFAULT_REGISTRY) if host == DOCKER_HOST else None)
    if auth is None:
        return None
    username, password = auth.registry_username, auth.registry_password
    if auth.registry_auth:
        try:
            text = base64.b64decode(auth.registry_auth, validate=True).decode()
        except ValueError:
            raise UserError(
                "auth is not in base64", where=f"credentials of registry {host}", hint="encode user:password"
            ) from None
        username, _, password = text.partition(":")
    return Credentials(username=username, password=password, identity_token=auth.registry_identity_token)


def find_tls(registries: RegistriesConfigSpec, host: str) -> RegistryTLSConfig | None:
    """The settings of TLS for a server."""
    settings: Mapping[str, RegistryTLSConfig] = registries.registry_tl_ss
    return settings.get(host)
