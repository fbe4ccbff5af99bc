"""The log of refused connections, bounded so that a flood does not fill it."""

import time

from talos.system.logging import Log

MAX_REASON = 256
"""Characters of a reason, which may repeat what the client has sent."""

BURST = 50
"""Refusals that are logged one by one in each period."""

LOG_INTERVAL = 60.0
"""Seconds after which they are logged one by one again."""


class Refusals:
    """Logs refused connections; in a flood only how many there were."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._begin = 0.0
        self._count = 0

    def record(self, peer: str, reason: str) -> None:
        """A connection was refused."""
        now = time.monotonic()
        if now - self._begin > LOG_INTERVAL:
            if self._count > BURST:
                self._log.warning("refused more connections", count=self._count - BURST)
            self._begin, self._count = now, 0
        self._count += 1
        if self._count <= BURST:
            self._log.warning("refused a connection", peer=peer, reason=reason[:MAX_REASON])
