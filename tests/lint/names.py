"""Holds names of modules and files in texts, unseen by type checkers; `make lint`, `nix flake check` run it.

modules     `talos` with what follows a dot, and imports of it, in strings, comments and what is no Python
            (the init of the image, build files) name a module, or something in one
paths       "tests/…", "python/…" and the like in quotation marks, in the builds of checks and in
            tests/run/changed.py, name a file or a folder
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "python"
FOLDERS = ("kernel", "modules", "nixos-tests", "pkgs", "python", "tests")
"""Where texts are read."""
SUFFIXES = {".nix", ".py", ".toml", ".tsv", ".sh", ""}
PATHS_IN = ("pkgs/checks/default.nix", "tests/run/changed.py")

IMPORT = re.compile(r"\b(?:from|import) (talos(?:\.\w+)+)(?: import (\w+))?")
DOTTED = re.compile(r"(?<![\w./@-])talos((?:\.[A-Za-z_]\w*)+)(?![\w/=*-])")
PATH = re.compile(r"\"((?:docs|kernel|modules|nixos-tests|pkgs|python|tests)(?:/[\w.-]+)+)\"")
PACKAGE = re.compile(r"^package (talos[\w.]*);", re.MULTILINE)
ARGUMENTS = ("talos.config.",)
"""Arguments of the kernel's command line, which begin as a folder does."""


def read_packages() -> tuple[str, ...]:
    """The packages of the API, whose messages are named as modules are."""
    files = sorted(PYTHON.rglob("*.proto"))
    return tuple({name for file in files for name in PACKAGE.findall(file.read_text(encoding="utf-8"))})


def find_missing(name: str, *, is_import: bool = False) -> str | None:
    """The part of a dotted name that is not there, None when all is.

    What does not begin with a folder of the source is a name of another kind, but in an import.
    """
    place, parts = PYTHON / "talos", name.split(".")[1:]
    for count, part in enumerate(parts):
        if part.endswith("_pb2") or part.startswith("__"):
            return None  # generated from a .proto, or of every module
        file = place / f"{part}.py"
        if file.is_file():
            inner = parts[count + 1 : count + 2]
            source = file.read_text(encoding="utf-8")
            return next((one for one in inner if not re.search(rf"\b{one}\b", source)), None)
        if part.endswith("_") and any(place.glob(f"{part}*.py")):
            return None  # the beginning of several names
        if not (place / part).is_dir():
            return part if count or is_import else None
        place /= part
    return None


def find_texts() -> Iterator[tuple[Path, str]]:
    """The files in which names are looked for, with their texts."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if (
                path.suffix in SUFFIXES
                and path.is_file()
                and not path.name.endswith(("_pb2.py", "_pb2_grpc.py"))
            ):
                try:
                    yield path.relative_to(ROOT), path.read_text(encoding="utf-8")
                except UnicodeDecodeError:
                    continue


def check_text(text: str, packages: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """The lines that name a module which is not there, with what is wrong."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in IMPORT.finditer(line):
            name = ".".join(filter(None, found.groups()))
            if missing := find_missing(name, is_import=True):
                yield number, f"{name}: there is no {missing!r}"
        for found in DOTTED.finditer(line):
            name = found[0]
            if name.startswith(ARGUMENTS) or any(f"{one}.".startswith(f"{name}.") for one in packages):
                continue
            if name.startswith(packages) or IMPORT.search(line):
                continue
            if missing := find_missing(name):
                yield number, f"{name}: there is no {missing!r}"


def check_paths(text: str) -> Iterator[tuple[int, str]]:
    """The lines that name a file or a folder which is not there."""
    for number, line in enumerate(text.splitlines(), 1):
        for path in PATH.findall(line):
            if not (ROOT / path).exists():
                yield number, f"{path}: there is no such file"


def main() -> int:
    """Print the problems."""
    packages, problems, count = read_packages(), list[str](), 0
    for path, text in find_texts():
        count += 1
        found = [*check_text(text, packages)]
        if str(path) in PATHS_IN:
            found += check_paths(text)
        problems += [f"{path}:{number}: {problem}" for number, problem in found]
    sys.stdout.write("\n".join([*problems, f"names: {count} files, {len(problems)} problems"]) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
