"""What passed with the same inputs is not repeated; anything else is."""

from pathlib import Path

import pytest
from tests.run.job import Counts, Job, Outcome, State
from tests.run.stamps import make_key, read_stamp, write_stamp

JOB = Job(name="node", command=("make", "node"))
PASSED = Outcome(job=JOB, state=State.PASSED, seconds=12, counts=Counts(passed=3, skipped=1))


def test_pass_is_remembered_for_its_key_alone(tmp_path: Path) -> None:
    assert read_stamp(JOB, "key", tmp_path) is None
    write_stamp(PASSED, "key", tmp_path)
    found = read_stamp(JOB, "key", tmp_path)
    assert found is not None
    assert (found.state, found.counts) == (State.UNCHANGED, PASSED.counts)
    assert found.reason.startswith("passed on ")
    assert found.reason.endswith(" in 12 s")
    assert read_stamp(JOB, "other", tmp_path) is None


def test_torn_stamp_is_none(tmp_path: Path) -> None:
    (tmp_path / "node.json").write_text('{"key": "key"', encoding="utf-8")
    assert read_stamp(JOB, "key", tmp_path) is None


def test_key_is_of_what_the_suite_is_made_of(tmp_path: Path) -> None:
    (tmp_path / "tests/__pycache__").mkdir(parents=True)
    source, page, cached = (tmp_path / name for name in ("tests/a.py", "page.md", "tests/__pycache__/a.pyc"))
    for path in (source, page, cached):
        path.write_text("1", encoding="utf-8")

    def key(path: str = "/nix/store/a", command: str = "node") -> str:
        return make_key(Job(name="node", command=(command,)), {"image": path}, ["tests"], tmp_path)

    first = key()
    assert key() == first
    assert key(path="/nix/store/b") != first
    assert key(command="cluster") != first
    for path in (page, cached):
        path.write_text("2", encoding="utf-8")
    assert key() == first
    source.write_text("2", encoding="utf-8")
    second = key()
    (tmp_path / "tests/new.py").write_text("", encoding="utf-8")
    assert len({first, second, key()}) == 3


def test_source_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no renamed"):
        make_key(JOB, {}, ["renamed"], tmp_path)
