"""The effective conditions of a config that a release on trial has to fulfil."""

from dataclasses import dataclass

from talos.config.documents.runtime.trial_check import TrialCheckConfig
from talos.config.model import Config
from talos.config.values import Duration

TIMEOUT, MAX_TIMEOUT = 5.0, 10.0
"""Seconds of one request or connection: where the config has none, and at most."""
MAX_CHECKS = 16
PROBE_PREFIX = "trial:"
"""Of the ids of checks among probes, which don't decide about the network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCheck:
    """A condition: one of ``url``, ``endpoint`` and ``expression`` is there. ``timeout`` is in seconds."""

    name: str
    url: str = ""
    endpoint: str = ""
    expression: str = ""
    timeout: float = TIMEOUT

    @property
    def probe_id(self) -> str:
        """The id of its probe; empty for an expression."""
        return "" if self.expression else f"{PROBE_PREFIX}{self.name}"


def list_trial_checks(config: Config) -> tuple[TrialCheck, ...]:
    """The conditions in the order of the config."""
    return tuple(map(_make_check, config.find_all(TrialCheckConfig)))


def _make_check(document: TrialCheckConfig) -> TrialCheck:
    name, http, tcp = document.name, document.http, document.tcp
    if http is not None:
        return TrialCheck(name=name, url=str(http.url or ""), timeout=_find_timeout(http.timeout))
    if tcp is not None:
        return TrialCheck(name=name, endpoint=tcp.endpoint or "", timeout=_find_timeout(tcp.timeout))
    return TrialCheck(name=name, expression=document.cel or "")


def _find_timeout(wanted: Duration | None) -> float:
    return wanted.seconds if wanted else TIMEOUT
