"""Build a program of the workstation: the $folders of python/talos it consists of, and a launcher in bin."""

import os
from pathlib import Path

from bytecode import compile_tree, copy_tree

# -I and -S: neither the environment nor a working directory adds to the path, and start-up stays short.
LAUNCHER = """#!{workstation}/usr/bin/python3.13 -IS
import os
import sys

sys.path[:] = [{lib!r}, {stdlib!r}, {stdlib!r} + "/lib-dynload", {wheels!r}]
os.environ["PATH"] = {tools!r} + os.pathsep + os.environ.get("PATH", "")
{settings}
from {module} import main

sys.exit(main())
"""


def main() -> None:
    """Assemble $out from $sources ("folder=path" words), $generated and the identity in $version and $rev.

    What $settings has as "NAME=VALUE" words, the program finds in its environment.
    """
    out, workstation = Path(os.environ["out"]), os.environ["workstation"]
    lib = out / "lib"
    for word in os.environ["sources"].split():
        folder, source = word.split("=", 1)
        copy_tree(Path(source), lib / "talos" / folder)
    copy_tree(Path(os.environ["generated"]), lib)
    (lib / "talos/talosctl/version.txt").write_text(f"{os.environ['version']}\n{os.environ['rev']}\n")
    compile_tree(lib, runtime=str(lib), keep_source=True)
    launcher = out / "bin" / os.environ["name"]
    launcher.parent.mkdir()
    python = f"{workstation}/usr/lib"
    launcher.write_text(
        LAUNCHER.format(
            workstation=workstation,
            lib=str(lib),
            stdlib=f"{python}/python3.13",
            wheels=f"{python}/python3/dist-packages",
            tools=f"{workstation}/sbin",
            module=os.environ["module"],
            settings="".join(
                f"os.environ[{name!r}] = {value!r}\n"
                for name, _, value in (word.partition("=") for word in os.environ.get("settings", "").split())
            ),
        )
    )
    launcher.chmod(0o755)


main()
