"""GRUB's environment: what it counts, what is chosen at each count, garbage."""

import re
from dataclasses import dataclass, replace

import pytest

from talos.upgrade.slots.grub.config import Entry, make_config
from talos.upgrade.slots.grub.environment import (
    NEITHER,
    SIZE,
    Environment,
    choose_slot,
    make_environment,
    merge_environments,
    parse_environment,
)
from talos.upgrade.state import ATTEMPTS, MAX_COUNT

A = Entry(slot="A", version="v1.15.0", arguments=("pti=on",))
B = Entry(slot="B", version="v1.16.0", arguments=("pti=on",))
BRANCH = re.compile(r'if \[ "\$boot_count" = "(\d)" \]; then\n((?:  .*\n)*)|else\n((?:  .*\n)*)fi$')


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What GRUB does at a count: the next one, whether the other slot is started, and with a watchdog."""

    count: str
    other: bool
    guarded: bool


def read_choices() -> dict[str, Chosen]:
    text = "\n".join(choose_slot("B", B.title, 0))
    found: dict[str, Chosen] = {}
    for count, body, rest in BRANCH.findall(text):
        lines = body or rest
        following = re.search(r"set boot_count=(\d)\n  save_env --file /grub/grubenv boot_count", lines)
        found[count] = Chosen(
            count=following[1] if following else "",
            other=f'set default="{B.title}"' in lines,
            guarded="set trial=talos.trial" in lines,
        )
    return found


def test_each_slot_is_started_three_times() -> None:
    choices, count = read_choices(), ""
    started: list[tuple[str, bool]] = []
    while (chosen := choices[count]).count:
        started.append(("other" if chosen.other else "default", chosen.guarded))
        count = chosen.count
    assert started == [
        ("default", False),
        *[("default", True)] * (ATTEMPTS - 1),
        *[("other", True)] * ATTEMPTS,
    ]
    assert count == str(MAX_COUNT)
    assert choices[count] == Chosen(count="", other=False, guarded=True), "the default, after a pause"


def test_neither_slot_is_said_and_waited_for() -> None:
    text = make_config([A, B], "A")
    assert f'  echo "{NEITHER}"\n' in text
    assert "  set timeout=300\n" in text


@pytest.mark.parametrize("slot", ["", "A", "B"])
@pytest.mark.parametrize("count", range(MAX_COUNT + 1))
@pytest.mark.parametrize("by_trial_loader", [False, True])
def test_what_was_made_is_parsed(slot: str, count: int, by_trial_loader: bool) -> None:
    environment = Environment(next_slot=slot, count=count, by_trial_loader=by_trial_loader)
    data = make_environment(environment)
    assert len(data) == SIZE
    assert data.startswith(b"# GRUB Environment Block\n")
    assert parse_environment(data) == environment


GOOD = make_environment(Environment())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        GOOD[:-1],
        GOOD + b"#",
        GOOD.replace(b"GRUB", b"grub"),
        b"\xff" * SIZE,
        GOOD.replace(b"boot_count=\n", b"boot_count=7"),
        GOOD.replace(b"boot_count=\n", b"boot_count=-1\n")[:SIZE],
        GOOD.replace(b"next_entry=\n", b"next_entry=C\n")[:SIZE],
        GOOD.replace(b"next_loader=\n", b"next_loader=../X\n")[:SIZE],
    ],
)
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"environment block|boot_count="):
        parse_environment(data)


def test_what_an_older_system_wrote_has_no_count() -> None:
    data = b"# GRUB Environment Block\nnext_entry=B\n".ljust(SIZE, b"#")
    assert parse_environment(data) == Environment(next_slot="B")


def test_what_is_farthest_on_one_half_of_a_mirror_is_true() -> None:
    staged = Environment(next_slot="B", by_trial_loader=True)
    assert merge_environments([staged]) == staged
    assert merge_environments([staged, Environment(by_trial_loader=True)]) == Environment(
        by_trial_loader=True
    )
    assert merge_environments([Environment(count=1), Environment(count=3)]).count == 3
    assert merge_environments([staged, replace(staged, count=2)]) == replace(staged, count=2)
