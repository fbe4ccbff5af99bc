"""Make $out/bin with the names that people type for what the workstation's interpreter runs.

Without them a shell finds the host's own, and runs them with our modules on `PYTHONPATH`.
"""

import os
import subprocess
from pathlib import Path

NAMES = ("python", "python3")
MODULES = ("basedpyright", "pytest")

folder = Path(os.environ["out"], "bin")
folder.mkdir(parents=True)
python = f"{os.environ['workstation']}/bin/python3.13"
for name in NAMES:
    (folder / name).symlink_to(python)
for name in MODULES:
    program = folder / name
    program.write_text(f'#!{os.environ["bash"]}/bin/bash\nexec {python} -m {name} "$@"\n')
    program.chmod(0o755)
for name in (*NAMES, "pytest"):
    subprocess.run([folder / name, "--version"], check=True)
