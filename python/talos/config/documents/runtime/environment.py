"""``EnvironmentConfig``: environment variables of the node's services."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentConfig(Document):
    """Environment variables of the node's services."""

    kind: ClassVar[str] = "EnvironmentConfig"

    variables: Mapping[str, str] | None = setting("the variables", private=True)
