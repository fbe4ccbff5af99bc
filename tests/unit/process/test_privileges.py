"""Dropping privileges, seen from outside in /proc. Needs root."""

import sys

import pytest

from talos.system.process import run_command

PROGRAM = """
from pathlib import Path
from talos.process.privileges import Privileges, drop_privileges
from talos.system import kernel
kept = frozenset({kernel.CAP_NET_ADMIN})
drop_privileges("sample", Privileges(uid=53, gid=53, capabilities=kept))
import os
print(Path("/proc/self/cmdline").read_bytes().rstrip(b"\\0").decode())
print(Path("/proc/self/status").read_text())
"""


@pytest.mark.root
def test_drop_privileges() -> None:
    lines = run_command([sys.executable, "-c", PROGRAM]).stdout.splitlines()
    status = {line.split(":")[0]: line.split(":")[1].split() for line in lines[1:] if ":" in line}
    assert lines[0] == "sample"
    assert status["Name"] == ["sample"]
    assert status["Uid"] == status["Gid"] == ["53"] * 4
    assert status["Groups"] == []
    mask = f"{1 << 12:016x}"
    assert [status[key][0] for key in ("CapPrm", "CapEff", "CapBnd")] == [mask] * 3
    assert [int(status[key][0], 16) for key in ("CapInh", "CapAmb")] == [0, 0]
    assert status["NoNewPrivs"] == ["1"]
