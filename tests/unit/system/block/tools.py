"""Programs of the workstation's tools, run as PID 1 runs those of the image."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from talos.provision.host.checks import tool_path
from talos.system.process import Finished, run_command

_CAP_SYS_RESOURCE = 24
_CAPABILITIES = re.search(r"CapEff:\s*(\w+)", Path("/proc/self/status").read_text(encoding="ascii"))
needs_resize = pytest.mark.skipif(
    _CAPABILITIES is None or not int(_CAPABILITIES[1], 16) >> _CAP_SYS_RESOURCE & 1,
    reason="the kernel resizes an ext4 for CAP_SYS_RESOURCE only",
)


async def run_tool(argv: Sequence[str], stdin: bytes) -> Finished:
    """Run a program of the same name as the one that is named by its path in the image."""
    name = Path(argv[0]).name
    program = shutil.which(name, path=tool_path())
    assert program, f"{name} is no part of the workstation's tools"
    done = run_command([program, *argv[1:]], input=stdin.decode(), check=False)
    return Finished(code=done.returncode, stdout=done.stdout.encode(), stderr=done.stderr.encode())
