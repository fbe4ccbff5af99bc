"""Looks at several machines at once, while something is done to them."""

import threading

from driver.availability import Looks, looking
from driver.failure import NotYet


def test_who_is_down_at_a_time_is_found() -> None:
    down, seen = {"one"}, threading.Semaphore(0)

    def check(name: str) -> None:
        seen.release()
        if name in down:
            raise NotYet(f"{name} does not answer")

    with looking({name: lambda name=name: check(name) for name in ("one", "two")}, 0.001) as looks:
        for _ in range(4):
            assert seen.acquire(timeout=10)
        assert looks.most() == ("one",)
        down.add("two")
        while len(looks.most()) < 2:
            assert seen.acquire(timeout=10)
    assert looks.most() == ("one", "two")


def test_none_was_down() -> None:
    looks = Looks([(), ()])
    assert looks.most() == ()
    assert looks.describe() == "0 of 2 looks found one down, at most 0 at a time"
