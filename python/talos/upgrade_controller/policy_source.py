"""Where a policy of upgrades comes from, and where its status goes."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, override

from talos.system.errors import UserError
from talos.upgrade_controller.config import Settings, load_settings
from talos.upgrade_controller.status import read_status, write_status


class GoneError(UserError):
    """There is no policy any more."""


class PolicySource(Protocol):
    """Where a policy comes from and its status goes. ``read`` and ``write`` are of the status."""

    def load(self) -> Settings:
        """The policy as it is now; UserError."""
        ...

    def read(self) -> dict[str, Any]:
        """The last status, empty before the first one; UserError."""
        ...

    def write(self, document: dict[str, Any]) -> None:
        """Show another status; OSError."""
        ...


@dataclass(frozen=True, slots=True)
class FilePolicySource(PolicySource):
    """A config and the file beside it that it names. Without a config that can be read there is no status."""

    path: Path

    @override
    def load(self) -> Settings:
        return load_settings(self.path)[0]

    @override
    def read(self) -> dict[str, Any]:
        return read_status(load_settings(self.path)[1])

    @override
    def write(self, document: dict[str, Any]) -> None:
        with suppress(UserError):
            write_status(load_settings(self.path)[1], document)
