"""A machine that is started anew: only at its first start, before it had a request."""

from pathlib import Path

import pytest
from driver.failure import StalledMachineError, VmTestError
from tests.unit.vm_driver.fake_machine import LOST_TIMER, make_machine


def count_starts(folder: Path) -> int:
    return len((folder / "starts").read_text().splitlines())


def test_its_first_start_is_repeated_once(tmp_path: Path) -> None:
    machine = make_machine(tmp_path, stalls=1)
    machine.start()
    try:
        with pytest.raises(VmTestError, match="API listens"):
            machine.wait_for_port(2)
        assert count_starts(tmp_path) == 2
        assert LOST_TIMER in machine.started_anew
    finally:
        machine.close()


def test_a_second_stall_is_the_test_s(tmp_path: Path) -> None:
    machine = make_machine(tmp_path, stalls=2)
    machine.start()
    try:
        with pytest.raises(StalledMachineError):
            machine.wait_for_port(30)
        assert count_starts(tmp_path) == 2
    finally:
        machine.close()


def test_not_after_it_had_a_request(tmp_path: Path) -> None:
    machine = make_machine(tmp_path, stalls=1)
    machine.start()
    machine.client.run("apply-config", check=False)
    try:
        with pytest.raises(StalledMachineError):
            machine.wait_for_port(30)
        assert count_starts(tmp_path) == 1
    finally:
        machine.close()
