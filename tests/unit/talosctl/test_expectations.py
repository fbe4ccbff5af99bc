"""Command lines that need no node: exit code, output and errors, as scripts and suites of others expect them.

The lines of a session run one after another in a folder of their own, so that a later one finds the files of
an earlier one. Output and errors are regular expressions; an empty one takes anything.
"""

import csv
import re
import shlex
from itertools import groupby
from pathlib import Path

import pytest

from talos.talosctl.main import run

TABLE = Path(__file__).parents[2] / "data/talosctl/offline.tsv"


def read_sessions() -> list[tuple[str, list[dict[str, str]]]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [(name, list(lines)) for name, lines in groupby(rows, key=lambda row: row["session"])]


SESSIONS = read_sessions()


@pytest.mark.parametrize(("name", "lines"), SESSIONS, ids=[name for name, _ in SESSIONS])
def test_session(
    name: str,
    lines: list[dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    del name
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for variable in ("TALOSCONFIG", "TALOS_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    for line in lines:
        code = run(shlex.split(line["argv"]))
        shown = capsys.readouterr()
        where = f"talosctl {line['argv']}\n{shown.out[:400]}\n{shown.err}"
        assert code == int(line["exit"]), where
        for pattern, text in ((line["stdout"], shown.out), (line["stderr"], shown.err)):
            assert re.search(pattern, text.strip(), re.DOTALL), f"/{pattern}/ is not in what came of {where}"
