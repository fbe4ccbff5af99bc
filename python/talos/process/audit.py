"""The record of calls that readers may not make.

It is written so that a caller cannot push older records out by making more of them: fields are
cut, each client has a rate, and what is left out is counted. machined keeps it as a log of its own.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from talos.system.logging import Log

MESSAGE = "audit"

STARTED = "started"
"""The result in the record of a call that begins."""

MAX_NODES = 16
"""Targets of one call that are recorded."""

MAX_FIELD = 128
"""Characters of one field."""

BURST = 50
"""Records of one client in a row."""

PER_SECOND = 0.5
"""Records of one client in the long run."""

MAX_CLIENTS = 256
"""Clients whose rates are kept; the one that called longest ago is forgotten first."""


@dataclass(slots=True)
class _Account:
    left: float
    time: float
    left_out: int = 0


class Audit:
    """Writes the record."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    def record(
        self,
        client: str,
        *,
        method: str,
        peer: str,
        name: str,
        roles: Sequence[str],
        nodes: Sequence[str],
        result: str,
    ) -> None:
        """A call has ended, or begins. ``client`` is what its rate is counted by."""
        account = self._account(client)
        if account.left < 1:
            account.left_out += 1
            return
        account.left -= 1
        fields: dict[str, object] = {}
        if len(nodes) > MAX_NODES:
            fields["more_nodes"] = len(nodes) - MAX_NODES
        if account.left_out:
            fields["left_out"], account.left_out = account.left_out, 0
        self._log.info(
            MESSAGE,
            method=method[:MAX_FIELD],
            peer=peer[:MAX_FIELD],
            name=name[:MAX_FIELD],
            roles=[role[:MAX_FIELD] for role in roles[:MAX_NODES]],
            nodes=[node[:MAX_FIELD] for node in nodes[:MAX_NODES]],
            result=result,
            **fields,
        )

    def _account(self, client: str) -> _Account:
        now = self._clock()
        account = self._accounts.setdefault(client, _Account(BURST, now))
        self._accounts.move_to_end(client)
        if len(self._accounts) > MAX_CLIENTS:
            _, oldest = self._accounts.popitem(last=False)
            if oldest.left_out:
                self._log.info(MESSAGE, left_out=oldest.left_out)
        account.left = min(BURST, account.left + (now - account.time) * PER_SECOND)
        account.time = now
        return account
