"""Build one folder of python/talos: sources and bytecode, under $out/talos/<folder>."""

import os
from pathlib import Path

from bytecode import compile_tree, copy_tree


def main() -> None:
    """Copy $source, add $generated if there is any, compile."""
    tree = Path(os.environ["out"], "talos", os.environ["folder"])
    copy_tree(Path(os.environ["source"]), tree)
    if os.environ.get("generated"):
        copy_tree(Path(os.environ["generated"], "talos", os.environ["folder"]), tree)
    compile_tree(tree, runtime=f"{os.environ['runtime']}/talos/{os.environ['folder']}", keep_source=True)


main()
