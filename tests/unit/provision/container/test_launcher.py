"""How a container ends."""

import pytest

from talos.provision.container.launcher import Outcome, parse_status


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (1, Outcome.RESTART),
        (2, Outcome.POWER_OFF),
        (9, Outcome.CRASH),
        (0, Outcome.CRASH),
        (256, Outcome.CRASH),
    ],
)
def test_the_end_of_pid_1_is_understood(status: int, outcome: Outcome) -> None:
    assert parse_status(status) is outcome
