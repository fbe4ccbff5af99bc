"""Make $out, a program that runs the arguments of the command line and its own after them."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Write it."""
    interpreter, *argv = sys.argv[1:]
    out = Path(os.environ["out"])
    out.write_text(
        f"#!{interpreter} -IB\n"
        "import os\nimport sys\n\n"
        f'os.environ["PYTHONPATH"] = {os.environ["PYTHONPATH"]!r}\n'
        f"os.execv({interpreter!r}, {[interpreter, *argv]!r} + sys.argv[1:])\n"
    )
    out.chmod(0o755)


main()
