"""The effective conditions of a config that a release on trial has to fulfil."""

from dataclasses import dataclass

from talos.config.documents.runtime.trial_check import TrialCheckConfig
from talos.config.model import Config
from talos.config.values import Duration

TIMEOUT, MAX_TIMEOUT = 5.0, 10.0
"""Seconds of one request or connection: where the config has none, and at most."""
MAX_CHECKS = 16
_PROBE_PREFIX = "trial:"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCheck:
    """A condition: one of ``url``, ``endpoint`` and ``expression`` is there. ``timeout`` is in seconds."""

    name: str
    url: str = ""
    endpoint: str = ""
    expression: str = ""
    timeout: float = TIMEOUT

    def make_probe_id(self, last: int = 0) -> str:
        """The id of its probe; empty for an expression.

        A verdict has a probe of its own: ``last`` is the number of the try, from 1.
        """
        number = f":{last}" if last else ""
        return "" if self.expression else f"{_PROBE_PREFIX}{self.name}{number}"


def is_trial_probe(probe: str) -> bool:
    """Whether a probe's id is that of a check, which does not decide about the network."""
    return probe.startswith(_PROBE_PREFIX)


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
