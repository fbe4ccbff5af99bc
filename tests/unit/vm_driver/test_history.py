"""The check of histories against one that tries every order."""

import math
import random
from itertools import permutations

import pytest
from driver.history import INITIAL, History, Operation, check_linearizability


def operation(value: str, begin: float, end: float, *, write: bool = False) -> Operation:
    return Operation(client="c", key="k", value=value, is_write=write, begin=begin, end=end)


def wrote(value: str, begin: float, end: float = math.inf) -> Operation:
    return operation(value, begin, end, write=True)


def has_an_order(operations: list[Operation]) -> bool:
    """Whether some order explains all (Wing and Gong); a write of unknown outcome may be left out."""
    unknown = [one for one in operations if one.end == math.inf]
    for chosen in range(1 << len(unknown)):
        dropped = {id(one) for index, one in enumerate(unknown) if chosen >> index & 1}
        taken = [one for one in operations if id(one) not in dropped]
        if any(explains(order) for order in permutations(taken)):
            return True
    return False


def explains(order: tuple[Operation, ...]) -> bool:
    value, latest = INITIAL, -math.inf
    for one in order:
        if one.end < latest or (not one.is_write and one.value != value):
            return False
        value, latest = one.value, max(latest, one.begin)
    return True


def test_the_check_finds_what_trying_every_order_finds() -> None:
    chance = random.Random(7)
    verdicts = {True: 0, False: 0}
    for _ in range(1500):
        # No two times are equal: clocks count nanoseconds.
        times = iter(chance.sample(range(100), 12))
        operations: list[Operation] = []
        for number in range(6):
            begin, end = sorted((next(times), next(times)))
            if number < 3:
                operations.append(wrote(str(number), begin, math.inf if chance.random() < 0.3 else end))
            else:
                operations.append(operation(chance.choice(["0", "1", "2", INITIAL]), begin, end))
        expected = has_an_order(operations)
        verdicts[expected] += 1
        assert (not check_linearizability(operations)) is expected, "\n".join(map(str, operations))
    assert min(verdicts.values()) > 100


@pytest.mark.parametrize(
    ("operations", "problem"),
    [
        ([wrote("a", 0, 1), operation(INITIAL, 2, 3)], "two values"),
        ([wrote("a", 0, 1), wrote("b", 2, 3), operation("a", 4, 5)], "two values"),
        ([operation("x", 0, 1)], "never written"),
        ([operation("a", 0, 1), wrote("a", 2, 3)], "before it was written"),
        ([wrote("a", 0), operation("a", 1, 2), operation(INITIAL, 3, 4)], "two values"),
    ],
    ids=["lost", "stale", "invented", "foreseen", "forgotten"],
)
def test_what_no_register_answers_is_named(operations: list[Operation], problem: str) -> None:
    (text,) = check_linearizability(operations)
    assert problem in text


def test_a_write_of_unknown_outcome_may_take_effect_late_or_never() -> None:
    late = [wrote("a", 0), operation(INITIAL, 5, 6), operation("a", 7, 8)]
    assert check_linearizability(late) == []
    assert check_linearizability([wrote("a", 0), operation(INITIAL, 5, 6)]) == []


def test_acknowledged_writes_are_counted() -> None:
    history = History()
    for one in (wrote("a", 0, 1), wrote("b", 2), operation("a", 3, 4)):
        history.add(one)
    assert history.count_acknowledged() == 1
