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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

LABEL_TAG = 0x06
"""META: the label of the slot to go back to, there while an upgrade is not confirmed."""
STATE_TAG = 0x40
"""META: this module's value."""
ANNOUNCE_TAG = 0x41
"""META: there from a trial that ended itself until the next boot has reported that."""
TAGS: Mapping[int, str] = {
    LABEL_TAG: "talosctl rollback",
    STATE_TAG: "talosctl upgrade or talosctl rollback",
    ANNOUNCE_TAG: "talosctl rollback",
}
"""META: what only an upgrade writes, each with the command that is meant instead."""
SHOWN = frozenset(f"0x{key:02x}" for key in TAGS)
"""Ids of META's resources that every reader sees: those that upgrade nodes, too. Others may have secrets."""
TRIAL_CHECK = "trial-check:"
"""Before the name of one of the config's trial checks, among services."""
MAX_STATE = 16384
"""Bytes of the value."""
MAX_CHECKS = 256
MAX_REASON = 1024
"""Characters."""
SLOTS = ("A", "B")
ATTEMPTS = 3
"""Starts of a slot without a confirmation, then it is the other slot's turn."""
MAX_COUNT = 2 * ATTEMPTS
"""Starts of both, then neither has come up."""
TRIAL_ARGUMENT = "talos.trial"
"""Of a system that is started once: it arms a watchdog before it does anything else."""
TIMEOUT_ARGUMENT = "talos.trial.limit"
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
    """The services, and ``network``, that were healthy before, and the trial checks that held: the self-check
    waits until they do again.
    """


IDLE = Upgrade()


def find_default(state: Upgrade) -> str:
    """The slot that is started by default; empty on trial, and while there was no upgrade."""
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
        version=_clean(version),
        previous_version=_clean(previous_version),
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
        version=_clean(version),
        previous_version=_clean(running_version),
        reason=_cut(reason),
    )


def _clean(version: str) -> str:
    """A version as the state may have it; that of another slot comes from ``grub.cfg``."""
    return version if _VERSION.fullmatch(version) else "unknown"


def _cut(reason: str) -> str:
    """What of a text fits into META, where other letters than ASCII's take more."""
    reason = reason[:MAX_REASON].encode(errors="replace").decode()
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
    """The state in META, idle when there is none. ValueError when it is none that this module wrote.

    What is accepted can be shown, be part of ``grub.cfg``, and be written again, whatever wrote it.
    """
    if data is None:
        return IDLE
    if len(data) > MAX_STATE:
        raise ValueError(f"{len(data)} bytes, at most {MAX_STATE}")
    try:
        document: object = json.loads(data.decode("ascii"), object_pairs_hook=_make_object)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    fields = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    if set(fields) != {*_TEXTS, "phase", "checks"}:
        raise ValueError("not the fields of an upgrade")
    texts = {name: _text(fields[name]) for name in _TEXTS}
    state = Upgrade(phase=Phase(_text(fields["phase"])), checks=_parse_checks(fields["checks"]), **texts)
    if state.phase is Phase.IDLE:
        if state != IDLE:
            raise ValueError("an upgrade that is idle has no other field")
        return state
    _check_fields(state)
    return state


def _check_fields(state: Upgrade) -> None:
    slots = (state.slot, state.previous)
    if slots not in (SLOTS, SLOTS[::-1]):
        raise ValueError(f"the slots {slots!r}")
    for version in (state.version, state.previous_version):
        if not _VERSION.fullmatch(version):
            raise ValueError(f"the version {version[:80]!r}")
    if len(state.reason) > MAX_REASON:
        raise ValueError(f"a reason of {len(state.reason)} characters, at most {MAX_REASON}")


def _make_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field appears twice")
    return found


def _parse_checks(value: object) -> tuple[str, ...]:
    checks = cast("list[object]", value) if isinstance(value, list) else None
    if checks is None or len(checks) > MAX_CHECKS:
        raise ValueError(f"the checks are no list of at most {MAX_CHECKS}")
    names = tuple(map(_text, checks))
    for name in names:
        if not _CHECK.fullmatch(name):
            raise ValueError(f"{name[:80]!r} is no service")
    return names


def _text(value: object) -> str:
    """A field that is text; one half of a surrogate pair, which JSON can name, is none."""
    if not isinstance(value, str):
        raise ValueError("a field that is no text")  # noqa: TRY004 - the content is wrong, not a caller
    value.encode()
    return value


_TEXTS = ("slot", "previous", "version", "previous_version", "reason")
_VERSION = re.compile(r"[A-Za-z0-9._+-]{0,128}")
"""A release's, or of a work tree's build; it becomes a part of ``grub.cfg``."""
_CHECK = re.compile(rf"(?:{TRIAL_CHECK})?[A-Za-z0-9][A-Za-z0-9._-]{{0,127}}")
"""A service's id, ``network``, or the name of a trial check."""
