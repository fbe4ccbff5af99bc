"""The check that a daemon's package has all that the daemon may ever import."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "pkgs/checks/import_daemons.py"
NAME = "exampled"
PART = f"talos.{NAME}.part"
MAIN = f"""from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import absent_at_run_time
def main():
    import {PART}
"""


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("import json", ""),
        ("import talos.apid", f"{PART}:2: No module named 'talos.apid'"),
        (f"from talos.{NAME} import nothing", f"{PART}:2: No module named"),
        ("import wave", f"{PART}:2: wave is not in the image"),
        ("import pytest", f"{PART}:2: pytest is not in the image"),
    ],
)
def test_what_a_function_imports_is_in_the_package(tmp_path: Path, line: str, problem: str) -> None:
    folder = tmp_path / "lib/talos" / NAME
    folder.mkdir(parents=True)
    (folder / "main.py").write_text(MAIN)
    (folder / "part.py").write_text(f"def work():\n    {line}\n")
    contents = tmp_path / "contents.toml"
    contents.write_text('[python]\nwithout = ["wave.py"]\nwheels_without = []\n')
    argv = [sys.executable, "-I", str(PROGRAM), NAME, str(tmp_path), str(tmp_path), str(contents)]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (result.returncode == 0) == (not problem), result.stdout + result.stderr
    assert result.stdout.startswith(problem or f"{NAME}: ")
