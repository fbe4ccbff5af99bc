"""An upgrade of several machines: what is run, and what is read of its output."""

import sys
from pathlib import Path

import pytest
from driver.clock import CLOCK
from driver.failure import VmTestError
from driver.fleet import Upgrade
from driver.process import start_process
from tests.unit.vm_driver.fake_machine import make_machine

PROGRAM = """\
import sys
print("10.0.2.12: writing slot B", file=sys.stderr, flush=True)
print('{"reason": "10.0.2.12: no answer", "nodes": [')
print('{"node": "10.0.2.12", "hostname": "two", "result": "failed", "secondsUnavailable": 3.5}]}')
sys.exit(1)
"""


def begin(folder: Path, program: str) -> Upgrade:
    with (folder / "stdout").open("wb") as stdout:
        process = start_process(
            [sys.executable, "-c", program], log=folder / "stderr", stdout=stdout.fileno()
        )
    return Upgrade(process, folder, CLOCK.now() + 20)


def test_the_outcome_is_the_code_and_the_rows(tmp_path: Path) -> None:
    upgrade = begin(tmp_path, PROGRAM)
    upgrade.wait_for("writing slot B")
    outcome = upgrade.finish()
    assert (outcome.code, outcome.results()) == (1, ["failed"])
    assert outcome.reason == "10.0.2.12: no answer"
    assert outcome.output.splitlines()[-1] == "two: failed, unavailable 3.5 s"


def test_a_refusal_is_the_reason(tmp_path: Path) -> None:
    upgrade = begin(tmp_path, "import sys; sys.exit('error: it is on trial')")
    assert upgrade.finish().reason == "error: it is on trial\n"
    with pytest.raises(VmTestError, match="ended before it reported /done/"):
        upgrade.wait_for("done")


def test_how_far_it_is_a_console_shows(tmp_path: Path) -> None:
    machine = make_machine(tmp_path)
    upgrade = begin(tmp_path, "import sys; sys.exit('error: it is on trial')")
    machine.console.feed(b"machined: v1.15.3 is on trial\n")
    upgrade.wait_for_console_text(machine, "v1.15.3 is on trial")
    reason = "ended before node's console showed /the default from now on/:\nerror: it is on trial"
    with pytest.raises(VmTestError, match=reason):
        upgrade.wait_for_console_text(machine, "the default from now on")


@pytest.mark.parametrize(
    ("text", "ended_unanswered"),
    [
        ("error: upgrade: 10.0.2.9: no answer within 10 s (nothing has been changed)", True),
        ("error: upgrade: 10.0.2.9: v1.15.3 is on trial (nothing has been changed)", False),
        ("10.0.2.9: pulling", False),
    ],
)
def test_only_a_command_without_an_answer_is_given_again(
    tmp_path: Path, text: str, *, ended_unanswered: bool
) -> None:
    assert begin(tmp_path, f"import sys; sys.exit({text!r})").ended_unanswered() is ended_unanswered
