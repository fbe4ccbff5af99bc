"""Delays that double."""

from itertools import islice

from talos.system.backoff import Backoff


def test_delays_double_up_to_the_limit_and_each_iteration_begins_anew() -> None:
    backoff = Backoff(0.5, 3.0)
    assert list(islice(backoff, 5)) == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert list(islice(backoff, 2)) == [0.5, 1.0]
    assert list(islice(Backoff(1.0), 4)) == [1.0, 2.0, 4.0, 8.0]


def test_any_number_of_failures_has_a_delay() -> None:
    assert next(islice(Backoff(0.1, 60.0), 5_000, None)) == 60.0
