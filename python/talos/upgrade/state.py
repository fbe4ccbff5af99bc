"""Where a machine is in an upgrade: one value in META, changed by the transitions below and no others.

    idle → staged → trial → blessed
              ↓        ↓
              reverted

``staged``: the other slot holds a verified system, which is booted once. ``trial``: it runs, and is not the
default yet. ``blessed``: it passed its self-check and is the default. ``reverted``: the old slot runs again.
A rollback is the same with the system that the other slot holds already. A default that does not come up any
more is reverted, too.
"""

import enum
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

LABEL_TAG = 0x06
"""META: the label of the slot to go back to, there while an upgrade is not confirmed."""
STATE_TAG = 0x40
"""META: this module's value."""
ANNOUNCE_TAG = 0x41
"""META: there from a trial that ended itself until the next boot has reported that."""
MAX_STATE = 16384
"""Bytes of the value."""
MAX_REASON = 1024
"""Characters."""
SLOTS = ("A", "B")
TRIAL_ARGUMENT = "talos.trial"
"""Of a system that is started once: it arms a watchdog before it does anything else."""
LIMIT_ARGUMENT = "talos.trial.limit"
"""The seconds that its self-check may take."""
BUSY = "another installation/upgrade is already in progress"
"""How a call that installs is refused while another one is at work."""


class Phase(enum.Enum):
    """Where an upgrade is."""

    IDLE = "idle"
    STAGED = "staged"
    TRIAL = "trial"
    BLESSED = "blessed"
    REVERTED = "reverted"


PENDING = (Phase.STAGED, Phase.TRIAL)
"""Of an upgrade that has no verdict yet."""
_AT_REST = (Phase.IDLE, Phase.BLESSED, Phase.REVERTED)
_TRANSITIONS = frozenset(
    {
        *((phase, Phase.STAGED) for phase in (*_AT_REST, Phase.STAGED)),
        (Phase.STAGED, Phase.TRIAL),
        (Phase.STAGED, Phase.REVERTED),
        (Phase.TRIAL, Phase.BLESSED),
        (Phase.TRIAL, Phase.REVERTED),
    }
)


class TransitionError(Exception):
    """An upgrade can't go from its phase to another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """The state. ``slot`` is the new system's, ``previous`` the one to go back to; empty while idle."""

    phase: Phase = Phase.IDLE
    slot: str = ""
    previous: str = ""
    version: str = ""
    previous_version: str = ""
    reason: str = ""
    """Why it was reverted."""
    checks: tuple[str, ...] = ()
    """The services, and ``network``, that were healthy before: the self-check waits until they are again."""


IDLE = Upgrade()


def find_default(state: Upgrade) -> str:
    """The slot that GRUB starts by default; empty on trial, and while there was no upgrade."""
    return {Phase.BLESSED: state.slot, Phase.REVERTED: state.previous}.get(state.phase, "")


def find_slot(cmdline: str) -> str:
    """The slot that a running system was started from, by its boot loader's argument; empty without one."""
    match = re.match(r"BOOT_IMAGE=(?:\([^)]*\))?/([AB])/\S+(?:\s|$)", cmdline)
    return match[1] if match else ""


def other_slot(slot: str) -> str:
    """The slot that is not this one."""
    return SLOTS[1 - SLOTS.index(slot)]


def stage(
    state: Upgrade, *, running: str, version: str, previous_version: str, checks: Sequence[str] = ()
) -> Upgrade:
    """The slot that does not run holds a system that shall be booted once; TransitionError."""
    _check(state, Phase.STAGED)
    return Upgrade(
        phase=Phase.STAGED,
        slot=other_slot(running),
        previous=running,
        version=version,
        previous_version=previous_version,
        checks=tuple(checks),
    )


def start(state: Upgrade, *, running: str, cause: str) -> Upgrade:
    """What the state is once a slot has booted: the trial begins, or the old slot is back.

    ``cause`` is why the boot before this one ended.
    """
    if state.phase not in PENDING or running not in SLOTS:
        return state
    if running == state.previous:
        what = "did not start" if state.phase is Phase.STAGED else "ended before its self-check was done"
        return revert(state, f"{state.version} in slot {state.slot} {what}: {cause}")
    if state.phase is Phase.TRIAL:
        return state
    return _change(state, Phase.TRIAL)


def bless(state: Upgrade) -> Upgrade:
    """The trial passed its self-check; TransitionError."""
    return _change(state, Phase.BLESSED)


def revert(state: Upgrade, reason: str) -> Upgrade:
    """The old slot is the one to boot; TransitionError."""
    return replace(_change(state, Phase.REVERTED), reason=_cut(reason))


def give_up(state: Upgrade, *, running: str, version: str, running_version: str, reason: str) -> Upgrade:
    """The default does not come up any more, so that the other slot runs and is kept; TransitionError."""
    if state.phase not in _AT_REST:
        raise TransitionError(f"an upgrade that is {state.phase.value} has its own end")
    return Upgrade(
        phase=Phase.REVERTED,
        slot=other_slot(running),
        previous=running,
        version=version,
        previous_version=running_version,
        reason=_cut(reason),
    )


def _cut(reason: str) -> str:
    """What of a text fits into META, where other letters than ASCII's take more."""
    reason = reason[:MAX_REASON]
    while len(json.dumps(reason)) > 2 * MAX_REASON:
        reason = reason[: len(reason) * 3 // 4]
    return reason


def _change(state: Upgrade, phase: Phase) -> Upgrade:
    _check(state, phase)
    return replace(state, phase=phase)


def _check(state: Upgrade, phase: Phase) -> None:
    if (state.phase, phase) not in _TRANSITIONS:
        raise TransitionError(f"an upgrade that is {state.phase.value} can't be {phase.value}")


def format_state(state: Upgrade) -> bytes:
    """The state as META keeps it."""
    texts = {name: getattr(state, name) for name in _TEXTS}
    return json.dumps(texts | {"phase": state.phase.value, "checks": state.checks}).encode()


def parse_state(data: bytes | None) -> Upgrade:
    """The state in META, idle when there is none. ValueError when it is none that this module wrote."""
    if data is None:
        return IDLE
    if len(data) > MAX_STATE:
        raise ValueError(f"{len(data)} bytes, at most {MAX_STATE}")
    document: object = json.loads(data)
    fields = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    if set(fields) != {*_TEXTS, "phase", "checks"}:
        raise ValueError("not the fields of an upgrade")
    texts = {name: _text(fields[name]) for name in _TEXTS}
    checks = fields["checks"]
    state = Upgrade(
        phase=Phase(fields["phase"]),
        checks=tuple(map(_text, cast("list[object]", checks))) if isinstance(checks, list) else (),
        **texts,
    )
    slots = (state.slot, state.previous)
    if slots not in (SLOTS, SLOTS[::-1]) and state.phase is not Phase.IDLE:
        raise ValueError(f"the slots {slots!r}")
    return state


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a field that is no text")  # noqa: TRY004 - the content is wrong, not a caller
    return value


_TEXTS = ("slot", "previous", "version", "previous_version", "reason")
