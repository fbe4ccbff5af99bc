"""``RegistryMirrorConfig``: mirrors of an image registry."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Section, setting
from talos.config.values import Url


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEndpoint(Section):
    """Servers to try, in order."""

    url: Url = setting("URL", default=Url(""), schemes=("http", "https"))
    override_path: bool | None = setting("the URL has the whole path already")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryMirrorConfig(Document):
    """Mirrors of an image registry."""

    kind: ClassVar[str] = "RegistryMirrorConfig"
    named: ClassVar[bool] = True

    name: str = setting("registry whose images are meant", default="")
    endpoints: tuple[RegistryEndpoint, ...] | None = setting("servers to try, in order")
    skip_fallback: bool | None = setting("never use the registry itself")
