"""Run one check on a copy of $tree with the generated modules in it; success makes $out."""

import os
import shutil
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Copy the tree, run the command of the arguments in it, create $out on success."""
    copy = Path("/build/tree")
    shutil.copytree(os.environ["tree"], copy)
    shutil.copytree(Path(os.environ["generated"], "talos"), copy / "python/talos", dirs_exist_ok=True)
    for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    workstation = os.environ["workstation"]
    os.environ["PATH"] = f"{workstation}/bin:{workstation}/sbin:{os.environ['PATH']}"
    os.environ["PYTHONPATH"] = str(copy / "python")
    os.environ["NO_COLOR"] = "1"  # Nix gives builders a terminal
    scratch = copy.parent / "scratch"  # on a disk, as tests of disk usage expect
    scratch.mkdir()
    os.environ["TMPDIR"] = str(scratch)
    os.environ["RUFF_NO_CACHE"] = "true"
    # What tests start need not compile their modules again.
    os.environ["PYTHONPYCACHEPREFIX"] = str(copy.parent / "bytecode")
    del os.environ["PYTHONDONTWRITEBYTECODE"]
    code = subprocess.run(sys.argv[1:], cwd=copy, check=False).returncode
    shutil.rmtree(scratch)  # tests leave trees deeper than Nix can remove
    if code:
        sys.exit(code)
    Path(os.environ["out"]).write_text("passed\n")


main()
