"""What the controller shows of itself, and the file that has it, which is replaced as a whole."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from talos.system.errors import UserError
from talos.system.files import replace_durably
from talos.system.parsed import as_object

MAX_STATUS = 4 << 20
"""Bytes of the file: a thousand nodes have 300 KB."""
CURRENT, WAITING, PAUSED, UPGRADING, HELD, FAILED, IDLE = (
    "current", "waiting", "paused", "upgrading", "held", "error", "idle",
)  # fmt: skip
"""States: all nodes run the release; the window is closed; the switch is off; nodes are under way; a release
has failed and is not tried again; the channel, the cluster or the config can't be used; there is no channel.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """One moment. ``release`` is what the channel offers, ``held`` the digest that has failed and why.

    ``begun`` is the digest of an upgrade whose end was not seen yet.
    """

    state: str
    reason: str = ""
    image: str = ""
    release: dict[str, str] = field(default_factory=dict[str, str])
    held: dict[str, str] = field(default_factory=dict[str, str])
    begun: dict[str, str] = field(default_factory=dict[str, str])
    nodes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    upgrade: dict[str, Any] = field(default_factory=dict[str, Any])
    """The last upgrade that began, as ``talosctl upgrade -o json`` shows one."""

    def document(self) -> dict[str, Any]:
        """As the file has it."""
        return {
            "state": self.state,
            "reason": self.reason,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "channel": self.image,
            "release": self.release,
            "held": self.held,
            "begun": self.begun,
            "nodes": self.nodes,
            "upgrade": self.upgrade,
        }


def write_status(path: Path, document: dict[str, Any]) -> None:
    """Replace the file; OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_durably(path, [json.dumps(document, indent=2).encode(), b"\n"])


def read_status(path: Path) -> dict[str, Any]:
    """The last status, empty before the first one; UserError."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_STATUS + 1)
        document: object = json.loads(data) if len(data) <= MAX_STATUS else None
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(f"can't be read: {error.strerror}", where=str(path)) from None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        hint = "remove it; the controller writes it anew"
        raise UserError("is no status of this program", where=str(path), hint=hint)
    return as_object(cast("object", document))


def read_texts(document: dict[str, Any], key: str) -> dict[str, str]:
    """The texts of a part of a status, such as the release that is held back; empty for none."""
    found = as_object(document.get(key))
    return {key: value for key, value in found.items() if isinstance(value, str)}
