"""Unified hunks of texts of many parts."""

import difflib
import random

import pytest
from tests.harness.processor import at_most

from talos.config.change import hunks
from talos.config.change.hunks import find_hunks

type Text = dict[str, list[str]]


def apply_hunks(before: Text, diff: list[str]) -> list[str]:
    """What the hunks make of the lines before."""
    lines = [line for part in before.values() for line in part]
    found: list[str] = []
    at = 0
    for line in diff[2:]:
        if line.startswith("@@"):
            first, _, length = line.split()[1].removeprefix("-").partition(",")
            begin = int(first) - (length != "0")
            found += lines[at:begin]
            at = begin
        elif line.startswith("+"):
            found.append(line[1:])
        else:
            assert lines[at] == line[1:]
            found += [lines[at]] if line.startswith(" ") else []
            at += 1
    return found + lines[at:]


def make_text(rng: random.Random) -> Text:
    names = rng.sample("abcdef", rng.randint(1, 6))
    return {name: [rng.choice("uvwxyz") for _ in range(rng.randint(0, 12))] for name in names}


@pytest.mark.parametrize("maximum", [hunks.MAX_WORK, 20, 0])
def test_hunks_make_the_new_text_of_the_old(monkeypatch: pytest.MonkeyPatch, maximum: int) -> None:
    monkeypatch.setattr(hunks, "MAX_WORK", maximum)
    rng = random.Random(7)
    for _ in range(300):
        before, after = make_text(rng), make_text(rng)
        diff = list(find_hunks(before, after))
        assert apply_hunks(before, diff) == [line for part in after.values() for line in part]


def test_one_part_is_as_difflib_has_it() -> None:
    rng = random.Random(8)
    for _ in range(100):
        old, new = ([rng.choice("abcdefgh") for _ in range(40)] for _ in range(2))
        new = old[:20] + new[:3] + old[22:]
        lines = difflib.unified_diff(old, new, "a", "b", lineterm="")
        assert list(find_hunks({"": old}, {"": new}))[2:] == [*lines][2:]


def test_nothing_changed() -> None:
    assert list(find_hunks({"a": ["x"], "b": []}, {"a": ["x"], "b": []})) == []
    assert list(find_hunks({}, {})) == []


def test_parts_that_are_the_same_are_left_out() -> None:
    before = {str(name): ["---", f"name: {name}"] for name in range(30)}
    diff = list(find_hunks(before, {**before, "29": ["---", "name: other"]}))
    assert diff[2:] == ["@@ -57,4 +57,4 @@", " ---", " name: 28", " ---", "-name: 29", "+name: other"]


def test_a_change_in_each_of_many_parts_is_found_soon() -> None:
    before = {str(name): [f"field{at}: text" for at in range(800)] for name in range(100)}
    after = {name: [*lines[:400], "field: other", *lines[401:]] for name, lines in before.items()}
    with at_most(2.0):
        diff = list(find_hunks(before, after))
    assert diff.count("+field: other") == 100


def test_large_parts_without_a_common_line_end_soon() -> None:
    rng = random.Random(9)
    before, after = ({"a": [rng.choice("abcd") for _ in range(200_000)]} for _ in range(2))
    with at_most(2.0):
        assert len(list(find_hunks(before, after))) > 200_000
