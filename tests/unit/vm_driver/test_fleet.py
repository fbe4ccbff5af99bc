"""An upgrade of several machines: what is run, and what is read of its output."""

import sys
from pathlib import Path

import pytest
from driver.failure import Failed
from driver.fleet import Upgrade
from driver.process import start_process

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
    return Upgrade(process, folder, 20)


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
    with pytest.raises(Failed, match="ended before it reported /done/"):
        upgrade.wait_for("done")
