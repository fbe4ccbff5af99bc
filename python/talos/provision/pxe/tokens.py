"""One-time tokens: a config is given once, to the machine that has run the script of its MAC address."""

import secrets
from dataclasses import dataclass, field
from threading import Lock

MAX_TOKENS = 4096
"""Tokens that wait for their machine; the oldest is forgotten, and its machine runs its script again."""


@dataclass(slots=True)
class Tokens:
    """The tokens of one run of the server; machines are named by their MAC addresses."""

    _valid: dict[str, str] = field(default_factory=dict[str, str])
    _spent: set[str] = field(default_factory=set[str])
    _lock: Lock = field(default_factory=Lock)

    def issue(self, mac: str) -> str:
        """A new token in place of an earlier one; empty when the machine's config was given already."""
        with self._lock:
            if mac in self._spent:
                return ""
            self._valid.pop(mac, None)
            self._valid[mac] = secrets.token_urlsafe(16)
            if len(self._valid) > MAX_TOKENS:
                del self._valid[next(iter(self._valid))]
            return self._valid[mac]

    def take(self, mac: str, token: str) -> bool:
        """Whether this is the machine's token, which is then of no more use, until :meth:`give_back`."""
        with self._lock:
            wanted = self._valid.get(mac, "")
            if not wanted or not secrets.compare_digest(wanted.encode(), token.encode()):
                return False
            del self._valid[mac]
            self._spent.add(mac)
            return True

    def give_back(self, mac: str, token: str) -> None:
        """Let a token be used again, since the config did not arrive."""
        with self._lock:
            self._spent.discard(mac)
            self._valid[mac] = token
