"""Programs and how they end."""

from pathlib import Path

import pytest

from talos.system.errors import UserError
from talos.system.process import describe_exit, format_command, run_command


def test_run_command() -> None:
    lines: list[str] = []
    result = run_command(["/bin/echo", "two words"], log=lines.append, cwd=Path("/"))
    assert result.stdout == "two words\n"
    assert lines == ["cd / && /bin/echo 'two words'"]
    with pytest.raises(UserError, match="exit code 3: oops"):
        run_command(["/bin/sh", "-c", "echo oops >&2; exit 3"])
    with pytest.raises(UserError, match="no-such-program is not installed"):
        run_command(["no-such-program"])
    with pytest.raises(UserError, match="no end after"):
        run_command(["/bin/sleep", "5"], timeout=0.05)
    assert format_command(["a", "b c"]) == "a 'b c'"
    assert [describe_exit(code) for code in (1, -9, -99)] == ["exit code 1", "signal SIGKILL", "signal 99"]
