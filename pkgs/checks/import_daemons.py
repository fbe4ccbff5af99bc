"""Import each daemon from its own package alone, which has what its layer allows, and the image's libraries.

What functions import is imported, too: nothing that a daemon may ever import is missing on a node.
"""

import ast
import importlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

STDLIB, WHEELS = "/usr/lib/python3.13/", "/usr/lib/python3/dist-packages/"
FROM_DEBIAN = ("_cffi_backend", "cryptography", "OpenSSL")
"""What the image has of the workstation's wheels; all others are its own."""


class LeftOut:
    """Refuses modules that the image's contents leave out, as if they were not there."""

    def __init__(self, contents: Path) -> None:
        rules = tomllib.loads(contents.read_text(encoding="utf-8"))["python"]
        self._without, self._wheels_without = rules["without"], rules["wheels_without"]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None: the finders after this one look. ModuleNotFoundError: it is left out."""
        spec = PathFinder.find_spec(name, path, target)
        origin = (spec and spec.origin) or ""
        if WHEELS in origin:
            is_missing = name.partition(".")[0] not in FROM_DEBIAN
        else:
            standard = STDLIB in origin
            parts = origin.partition(STDLIB if standard else "/site/")[2].split("/")
            rules = self._without if standard else self._wheels_without
            is_missing = any(fnmatch(part, rule) for part in parts for rule in rules)
        if is_missing:
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)
        return None


def find_imports(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Every import at run time: its line, the module, and a name of it that may be a module, too."""
    if isinstance(tree, ast.If) and ast.unparse(tree.test) == "TYPE_CHECKING":
        return
    if isinstance(tree, ast.Import):
        yield from ((tree.lineno, name.name, "") for name in tree.names)
    elif isinstance(tree, ast.ImportFrom):
        yield from ((tree.lineno, tree.module or "", name.name) for name in tree.names)
    for node in ast.iter_child_nodes(tree):
        yield from find_imports(node)


def import_all(name: str) -> Iterator[str]:
    """Import a module, and what it and those of our modules that it needs import; what fails and where."""
    importlib.import_module(name)
    done = set[str]()
    while found := {name for name in sys.modules if name.startswith("talos.")} - done:
        done |= found
        for module in sorted(found):
            file = sys.modules[module].__file__
            tree = ast.parse(Path(file).read_bytes()) if file else ast.Pass()
            for line, wanted, part in find_imports(tree):
                try:
                    imported = importlib.import_module(wanted)
                    if part and not hasattr(imported, part):
                        importlib.import_module(f"{wanted}.{part}")
                except ImportError as error:
                    yield f"{module}:{line}: {error}"


def check_package(name: str, package: str, wheels: str, contents: str) -> int:
    """Check one daemon; the exit code of this interpreter, which is its alone."""
    sys.path[:0] = [f"{package}/lib", f"{wheels}/site"]
    sys.meta_path.insert(0, LeftOut(Path(contents)))
    problems = list(import_all(f"talos.{name}.main"))
    sys.stdout.write("".join(f"{problem}\n" for problem in problems))
    sys.stdout.write(f"{name}: {len(sys.modules)} modules from its own package, {len(problems)} problems\n")
    return int(bool(problems))


def main() -> int:
    """Go through the $packages; a name is the last part of a store path behind its hash."""
    python = f"{os.environ['workstation']}/bin/python3.13"
    more = (os.environ["wheels"], os.environ["contents"])
    failed = False
    for package in os.environ["packages"].split():
        name = Path(package).name.partition("-")[2]
        failed |= subprocess.run([python, "-I", __file__, name, package, *more], check=False).returncode != 0
    if not failed:
        Path(os.environ["out"]).write_text("passed\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(check_package(*sys.argv[1:]) if sys.argv[1:] else main())
