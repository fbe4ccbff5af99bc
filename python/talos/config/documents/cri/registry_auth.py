"""``RegistryAuthConfig``: credentials for an image registry."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAuthConfig(Document):
    """Credentials for an image registry."""

    kind: ClassVar[str] = "RegistryAuthConfig"
    named: ClassVar[bool] = True

    name: str = setting("registry's host", default="")
    username: str | None = setting("user name")
    password: str | None = setting("password", secret=True)
    auth: str | None = setting("ready-made value of the authorization header", secret=True)
    identity_token: str | None = setting("token in place of a password", secret=True)
