"""A service is called all the time, at another machine when one gives no answer."""

import threading

import pytest
from driver.failure import ConditionNotMetError
from driver.requests import Answers, fetch, requesting
from driver.world import free_port
from tests.harness.limits import REAL_TIMEOUT


def test_the_next_machine_is_called_when_one_gives_no_answer() -> None:
    down, seen = {"one"}, threading.Semaphore(0)

    def answer(name: str) -> str:
        seen.release()
        if name in down:
            raise ConditionNotMetError(f"{name} does not answer")
        return f"pod on {name}"

    servers = {name: lambda name=name: answer(name) for name in ("one", "two")}
    with requesting(servers, 0.001) as answers:
        for _ in range(4):
            assert seen.acquire(timeout=REAL_TIMEOUT)
        assert answers.refusals == 1
        assert list(answers.by) == ["pod on two"]
        down.clear()
        down.add("two")
        while len(answers.by) < 2:
            assert seen.acquire(timeout=REAL_TIMEOUT)
    assert answers.refusals == 2
    assert answers.count == sum(answers.by.values())


def test_pauses_count_between_answers_and_after_the_last() -> None:
    times = iter([10.0, 12.0, 17.0])
    answers = Answers(lambda: next(times))
    answers.note("pod")
    answers.note("pod")
    assert answers.longest_gap == 2
    answers.note_end()
    assert (
        answers.describe() == "2 answers of 1 pods, 0 requests without one, at most 5.0 s without an answer"
    )


def test_a_port_without_a_server_gives_no_answer() -> None:
    port = free_port()
    with pytest.raises(AssertionError, match=f"no answer at port {port}"):
        fetch(port, REAL_TIMEOUT)
