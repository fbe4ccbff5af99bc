"""The state machine of an upgrade: every pair of phases, boots into either slot, garbage in META."""

import itertools
import json
from dataclasses import replace

import pytest

from talos.upgrade.state import (
    IDLE,
    MAX_CHECKS,
    MAX_REASON,
    SHOWN,
    Phase,
    TransitionError,
    Upgrade,
    bless,
    find_default,
    find_slot,
    format_state,
    give_up,
    parse_state,
    revert,
    stage,
    start,
)

STAGED = stage(IDLE, running="A", version="v1.16.0", previous_version="v1.15.0")
ALLOWED = {
    (Phase.IDLE, "stage"),
    (Phase.STAGED, "stage"),
    (Phase.STAGED, "revert"),
    (Phase.TRIAL, "bless"),
    (Phase.TRIAL, "revert"),
    (Phase.BLESSED, "stage"),
    (Phase.REVERTED, "stage"),
}


@pytest.mark.parametrize(("phase", "action"), list(itertools.product(Phase, ("stage", "bless", "revert"))))
def test_only_these_transitions_exist(phase: Phase, action: str) -> None:
    state = replace(STAGED, phase=phase)

    def act() -> Upgrade:
        match action:
            case "stage":
                return stage(state, running="B", version="v2.0.0", previous_version="v1.16.0")
            case "bless":
                return bless(state)
            case _:
                return revert(state, "x")

    if (phase, action) in ALLOWED:
        assert act().phase.value.startswith(action)
    else:
        with pytest.raises(TransitionError, match=f"an upgrade that is {phase.value} can't be"):
            act()


@pytest.mark.parametrize("phase", Phase)
def test_a_default_is_given_up_at_rest_only(phase: Phase) -> None:
    state = replace(STAGED, phase=phase)

    def act() -> Upgrade:
        return give_up(state, running="B", version="v1.15.0", running_version="v1.16.0", reason="x" * 9999)

    if phase in (Phase.STAGED, Phase.TRIAL):
        with pytest.raises(TransitionError, match="has its own end"):
            act()
    else:
        expected = Upgrade(
            phase=Phase.REVERTED,
            slot="A",
            previous="B",
            version="v1.15.0",
            previous_version="v1.16.0",
            reason="x" * MAX_REASON,
        )
        assert act() == expected == parse_state(format_state(expected))


def test_the_new_slot_boots_and_is_blessed() -> None:
    assert (STAGED.slot, STAGED.previous) == ("B", "A")
    trial = start(STAGED, running="B", cause="kernel panic: x")
    assert trial.phase is Phase.TRIAL
    assert start(trial, running="B", cause="kernel panic: x") == trial
    assert bless(trial).phase is Phase.BLESSED
    assert start(bless(trial), running="A", cause="").phase is Phase.BLESSED


def test_only_a_verdict_makes_a_default() -> None:
    trial = start(STAGED, running="B", cause="")
    states = (IDLE, STAGED, trial, bless(trial), revert(trial, "x"))
    assert [find_default(state) for state in states] == ["", "", "", "B", "A"]


def test_the_old_slot_boots_instead() -> None:
    assert (
        start(STAGED, running="A", cause="kernel panic: x").reason
        == "v1.16.0 in slot B did not start: kernel panic: x"
    )
    trial = start(STAGED, running="B", cause="kernel panic: x")
    back = start(trial, running="A", cause="kernel panic: x")
    assert (back.phase, "before its self-check" in back.reason) == (Phase.REVERTED, True)
    known = revert(trial, "the network is down" * 1000)
    assert start(known, running="A", cause="kernel panic: x") == known
    assert len(known.reason) == 1024


def test_a_boot_from_neither_slot_changes_nothing() -> None:
    assert start(STAGED, running="", cause="") == STAGED


@pytest.mark.parametrize("letter", ["x", "\u00e4", "\U0001f4a5", "\0", "\ud800"])
def test_a_reason_of_any_letters_survives_meta(letter: str) -> None:
    checks = [f"ext-service-{number}" for number in range(100)]
    staged = stage(IDLE, running="A", version="v1.15.1", previous_version="v1.15.0", checks=checks)
    state = revert(staged, letter * 2 * MAX_REASON)
    assert parse_state(format_state(state)) == state
    assert state.checks == tuple(checks)
    assert len(state.reason) > MAX_REASON // 8
    assert len(json.dumps(state.reason)) <= 2 * MAX_REASON


def test_a_reason_that_just_fits_is_whole() -> None:
    assert revert(STAGED, "\n" * (MAX_REASON - 1)).reason == "\n" * (MAX_REASON - 1)


def test_a_version_that_only_grub_knows_is_kept_or_left_out() -> None:
    for version, kept in (("v1.15.0-3-gabcdef+dirty", "v1.15.0-3-gabcdef+dirty"), ('"; reboot', "unknown")):
        state = stage(IDLE, running="A", version=version, previous_version=version)
        assert (state.version, state.previous_version) == (kept, kept)
        given_up = give_up(IDLE, running="A", version=version, running_version=version, reason="")
        assert (given_up.version, given_up.previous_version) == (kept, kept)
        assert parse_state(format_state(state)) == state


def test_the_state_survives_meta() -> None:
    state = revert(start(STAGED, running="B", cause="kernel panic: x"), "no network")
    assert parse_state(format_state(state)) == state
    assert parse_state(None) == IDLE == parse_state(format_state(IDLE))
    assert parse_state(format_state(state).ljust(16384)) == state
    largest = replace(state, checks=("a" * 32,) * MAX_CHECKS, version="v" * 128, reason="x" * MAX_REASON)
    assert parse_state(format_state(largest)) == largest


@pytest.mark.parametrize("phase", ["staged", "trial", "blessed", "reverted"])
def test_what_another_version_of_the_system_has_written_is_read(phase: str) -> None:
    versions = {"version": "v1.16.0", "previous_version": "v1.15.0"}
    fields = {"phase": phase, "slot": "B", "previous": "A", "reason": "x", "checks": ["apid"], **versions}
    state = Upgrade(phase=Phase(phase), slot="B", previous="A", reason="x", checks=("apid",), **versions)
    assert parse_state(json.dumps(fields).encode()) == state
    assert json.loads(format_state(state)) == fields


def test_the_keys_of_meta_are_those_of_all_versions() -> None:
    assert {"0x06", "0x40", "0x41"} == SHOWN


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "Expecting value"),
        (b"garbage", "Expecting value"),
        (b"\xff\xfe", "Expecting value|codec can't decode"),
        (b"[]", "not the fields of an upgrade"),
        (b"1", "not the fields of an upgrade"),
        (b"{}", "not the fields of an upgrade"),
        (format_state(STAGED).ljust(16385), "16385 bytes, at most 16384"),
        (format_state(STAGED).replace(b'"B"', b'"C"'), "the slots"),
        (format_state(STAGED).replace(b"staged", b"stolen"), "'stolen' is not a valid Phase"),
        (format_state(STAGED).replace(b'"A"', b"1"), "a field that is no text"),
        (b"[" * 10_001, "nested too deeply"),
        (format_state(STAGED).replace(b'"staged"', b'["staged"]'), "a field that is no text"),
        (format_state(STAGED).replace(b'"staged"', b'"idle"'), "idle has no other field"),
        (format_state(STAGED).replace(b"v1.15.0", rb"v1\"; reboot; #"), "the version"),
        (format_state(STAGED).replace(b"v1.16.0", b"v" * 129), "the version"),
        (format_state(STAGED).replace(b"v1.15.0", rb"\ud800"), "surrogates not allowed"),
        (format_state(STAGED).replace(b'"reason": ""', b'"reason": "%s"' % (b"x" * 1025)), "1025 characters"),
        (format_state(STAGED).replace(b"[]", b'{"apid": 1}'), "no list"),
        (format_state(STAGED).replace(b"[]", b'["apid", 1]'), "a field that is no text"),
        (format_state(STAGED).replace(b"[]", rb'["a\nb"]'), "is no service"),
        (format_state(STAGED).replace(b"[]", b'["%s"]' % (b"a" * 9999)), "is no service"),
        (format_state(STAGED).replace(b"[]", b'["trial-check:"]'), "is no service"),
        (format_state(STAGED).replace(b"[]", b'["other:a"]'), "is no service"),
        (format_state(STAGED).replace(b"[]", b'["a"%s]' % (b', "a"' * 256)), "no list of at most 256"),
        (format_state(STAGED).replace(b'{"slot"', b'{"slot": "A", "slot"'), "a field appears twice"),
        (format_state(STAGED).decode().encode("utf-16"), "codec can't decode"),
    ],
)
def test_garbage_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        parse_state(data)
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize(
    ("cmdline", "slot"),
    [
        ("BOOT_IMAGE=/B/vmlinuz pti=on", "B"),
        ("BOOT_IMAGE=(hd0,gpt3)/A/vmlinuz", "A"),
        ("BOOT_IMAGE=/A/rootfs.sqsh talos.platform=container", "A"),
        ("BOOT_IMAGE=/boot/vmlinuz pti=on", ""),
        ("pti=on x=BOOT_IMAGE=/B/vmlinuz", ""),
        ("BOOT_IMAGE=/C/vmlinuz", ""),
        ("", ""),
    ],
)
def test_the_running_slot(cmdline: str, slot: str) -> None:
    assert find_slot(cmdline) == slot
