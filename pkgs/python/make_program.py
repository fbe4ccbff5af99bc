"""Build a program of the workstation: the $folders of python/talos it consists of, and a launcher in bin."""

import marshal
import os
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

from bytecode import compile_tree, copy_tree

# -I and -S: neither the environment nor a working directory adds to the path, and start-up stays short.
LAUNCHER = """#!{client}/usr/bin/python3.13 -IS
import os
import sys

sys.path[:] = [{lib!r}, {stdlib!r}, {stdlib!r} + "/lib-dynload", {wheels!r}]
os.environ["PATH"] = {tools!r} + os.pathsep + os.environ.get("PATH", "")
{settings}
from talos.startup import bundle

bundle.install([{bundle!r}])

from {module} import main

sys.exit(main())
"""

BUNDLE = "start.bundle"
PYC_HEADER = 16
"""Bytes before the code in a .pyc file."""
LIST = """
import importlib, os, sys
sys.path[:] = {path!r}
before = set(sys.modules)
for name in {preload!r}:
    importlib.import_module(name)
for name, module in sorted(sys.modules.items()):
    if name not in before:
        file = getattr(module, "__file__", None) or ""
        folder = "" if file else next(iter(getattr(module, "__path__", ())), "")
        if file.endswith(".py") or folder:
            print(name, file or folder, hasattr(module, "__path__"))
"""


def make_bundle(out: Path, preload: list[str], path: list[str]) -> None:
    """Put the bytecode of modules and of what they import into one file; talos/startup/bundle.py reads it."""
    listing = subprocess.run(
        [sys.executable, "-IS", "-c", LIST.format(preload=preload, path=path)],
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    index: dict[str, tuple[int, int, str, bool]] = {}
    codes = bytearray()
    for line in listing.stdout.splitlines():
        name, where, is_package = line.split(" ")
        code = b""
        if where.endswith(".py"):
            compiled = Path(cache_from_source(where))
            if not compiled.exists():
                continue
            code = compiled.read_bytes()[PYC_HEADER:]
        index[name] = (len(codes), len(code), where, is_package == "True")
        codes += code
    head = marshal.dumps(index)
    out.write_bytes(len(head).to_bytes(8, "little") + head + codes)


def main() -> None:
    """Assemble $out from $sources ("folder=path" words), $generated and the identity in $version and $rev.

    What $settings has as "NAME=VALUE" words, the program finds in its environment. $preload names modules
    that most runs import: they load faster from one file.
    """
    out, client = Path(os.environ["out"]), os.environ["client"]
    lib = out / "lib"
    for word in os.environ["sources"].split():
        folder, source = word.split("=", 1)
        copy_tree(Path(source), lib / "talos" / folder)
    copy_tree(Path(os.environ["generated"]), lib)
    (lib / "talos/talosctl/version.txt").write_text(f"{os.environ['version']}\n{os.environ['rev']}\n")
    compile_tree(lib, runtime=str(lib), keep_source=True)
    launcher = out / "bin" / os.environ["name"]
    launcher.parent.mkdir()
    python = f"{client}/usr/lib"
    stdlib, wheels = f"{python}/python3.13", f"{python}/python3/dist-packages"
    path = [str(lib), stdlib, f"{stdlib}/lib-dynload", wheels]
    make_bundle(lib / BUNDLE, os.environ["preload"].split(), path)
    launcher.write_text(
        LAUNCHER.format(
            client=client,
            lib=str(lib),
            stdlib=stdlib,
            wheels=wheels,
            bundle=str(lib / BUNDLE),
            tools=f"{client}/sbin",
            module=os.environ["module"],
            settings="".join(
                f"os.environ[{name!r}] = {value!r}\n"
                for name, _, value in (word.partition("=") for word in os.environ.get("settings", "").split())
            ),
        )
    )
    launcher.chmod(0o755)


main()
