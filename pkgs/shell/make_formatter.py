"""Make $out/bin/ruff-format, which formats the files and folders of its arguments, or all below."""

import os
from pathlib import Path

program = Path(os.environ["out"], "bin/ruff-format")
program.parent.mkdir(parents=True)
ruff = f"{os.environ['workstation']}/bin/ruff"
program.write_text(f'#!{os.environ["bash"]}/bin/bash\nexec {ruff} format "$@"\n')
program.chmod(0o755)
