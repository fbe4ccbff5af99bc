"""The config's conditions of a trial: which do not hold now, and why.

networkd probes what is in the network; expressions are about resources of the State.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import trio
from google.protobuf.message import Message

from talos.api.definitions.network_pb2 import ProbeStatusSpec
from talos.config.effective.trial_checks import MAX_CHECKS, MAX_TIMEOUT, TrialCheck, is_trial_probe
from talos.resource import kinds
from talos.resource.kind import Kind
from talos.resource.resource import Resource
from talos.system.errors import UserError

if TYPE_CHECKING:
    from talos.config.cel.compile import Expression

READY_TIMEOUT = 15.0
"""Seconds for all to hold before a release is written: a probe has its first result within 10 s."""
LAST_TIMEOUT = MAX_TIMEOUT + 5.0
"""Seconds for the probes right before a verdict to have a result."""
POLL_INTERVAL = 0.5
"""Seconds."""
REPORT_DELAY = 2.0
"""Seconds until what is waited for is reported: most probes succeed before."""
MAX_SHOWN = 200
"""Characters of a URL, an expression or an error in a reason."""
UNPROBED = "not probed yet"

_BY_ID: Mapping[str, Kind[Message]] = {"services": kinds.SERVICE, "probes": kinds.PROBE_STATUS}
_SINGLE: Mapping[str, Kind[Message]] = {
    "network": kinds.NETWORK_STATUS,
    "machine": kinds.MACHINE_STATUS,
    "node": kinds.NODE_STATUS,
}
"""What expressions are about, by the names of ``talos.config.cel.environments.TRIAL_CHECK``."""
INPUTS = (*_BY_ID.values(), *_SINGLE.values())
"""What :func:`find_failing` reads."""


class Reader(Protocol):
    """The State, or what a controller may read of it."""

    async def list[S: Message](self, kind: Kind[S]) -> Sequence[Resource[S]]:
        """All resources of a kind."""
        ...


async def find_failing(reader: Reader, checks: Sequence[TrialCheck], last: int = 0) -> Mapping[str, str]:
    """Those that don't hold now, by name, each with the reason as people see it.

    ``last`` is for the probes of a verdict, as in ``TrialCheck.make_probe_id``.
    """
    if not checks:
        return {}
    probes = {one.id: one.spec for one in await reader.list(kinds.PROBE_STATUS)}
    variables: Mapping[str, Any] = {}
    if any(check.expression for check in checks):
        variables = await _read_variables(reader)
    reasons = {
        check.name: _evaluate(check.expression, variables)
        if check.expression
        else _find_failure(check, probes.get(check.make_probe_id(last)))
        for check in checks
    }
    return {name: f'trial check "{name}": {reason}' for name, reason in reasons.items() if reason}


async def wait_for_checks(
    reader: Reader, checks: Sequence[TrialCheck], report: Callable[[str], None]
) -> Mapping[str, str]:
    """Those that don't hold within :data:`READY_TIMEOUT`, as :func:`find_failing` returns them.

    What is waited for is reported.
    """
    begin, shown = trio.current_time(), ""
    while failing := await find_failing(reader, checks):
        waited = trio.current_time() - begin
        if waited >= READY_TIMEOUT:
            break
        text = "; ".join(failing.values())
        if text != shown and waited >= REPORT_DELAY:
            report(f"waiting for up to {READY_TIMEOUT:.0f} s: {text}")
            shown = text
        await trio.sleep(POLL_INTERVAL)
    return failing


async def wait_for_last_probes(reader: Reader, checks: Sequence[TrialCheck], last: int) -> None:
    """Return when the probes of a verdict have their results, or after :data:`LAST_TIMEOUT`."""
    wanted = {probe for check in checks if (probe := check.make_probe_id(last))}
    with trio.move_on_after(LAST_TIMEOUT):
        while wanted - {one.id for one in await reader.list(kinds.PROBE_STATUS)}:  # noqa: ASYNC110 - a reader has no watch
            await trio.sleep(POLL_INTERVAL)


def _find_failure(check: TrialCheck, status: ProbeStatusSpec | None) -> str:
    """Why a probe fails; empty while it succeeds."""
    if status is not None and status.success:
        return ""
    return f"{_cut(check.url or check.endpoint)}: {_cut(status.last_error) if status else UNPROBED}"


async def _read_variables(reader: Reader) -> Mapping[str, Any]:
    """The resources for expressions; those that are missing are empty.

    The probes are those of the config's probes: checks are not about each other.
    """
    found: dict[str, Any] = {}
    for name, kind in _BY_ID.items():
        listed = await reader.list(kind)
        found[name] = {one.id: one.spec for one in listed if not is_trial_probe(one.id)}
    for name, kind in _SINGLE.items():
        found[name] = next((one.spec for one in await reader.list(kind)), kind.spec())
    return found


def _evaluate(text: str, variables: Mapping[str, Any]) -> str:
    """Why an expression does not hold; empty when it does."""
    try:
        if _compile(text).is_true(variables):
            return ""
    except UserError as error:
        return f"{_cut(text)}: {_cut(error.message.removeprefix(repr(text)).strip(' ,:'))}"
    return f"{_cut(text)} is false"


@functools.lru_cache(maxsize=MAX_CHECKS)
def _compile(text: str) -> "Expression":
    """A checked expression; UserError where another version has accepted it."""
    from talos.config.cel.compile import compile_expression
    from talos.config.cel.environments import TRIAL_CHECK

    return compile_expression(text, TRIAL_CHECK, where="")


def _cut(text: str) -> str:
    """A text on one line, of a length that leaves room for others in META."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}…"
