"""Holds names of modules and files in texts, unseen by type checkers; `make lint`, `nix flake check` run it.

modules     `talos` with what follows a dot, and imports of it, in strings, comments and what is no Python
            (the init of the image, build files) name a module, or something in one
paths       "tests/…", "python/…" and the like in quotation marks, in the builds of checks and in
            tests/run/changed.py, name a file or a folder; so they do in the documentation, without them,
            and a Python file is there by the end of its path, such as `etcd/client.py`
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
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "kernel/README.md")
"""Pages beside those below docs/. CHANGELOG.md names files of older versions."""

IMPORT = re.compile(r"\b(?:from|import) (talos(?:\.\w+)+)(?: import (\w+))?")
DOTTED = re.compile(r"(?<![\w./@-])talos((?:\.[A-Za-z_]\w*)+)(?![\w/=*-])")
FOLDER = r"(?:docs|kernel|modules|nixos-tests|pkgs|python|tests)"
PATH = re.compile(rf"\"({FOLDER}(?:/[\w.-]+)+)\"")
PAGE_PATH = re.compile(
    rf"(?<![\w./@<{{-])({FOLDER}(?:/[\w.{{}},-]*[\w}}])+|(?:[\w{{}},-]+/)+[\w{{}},]+\.py)(?!\w)"
)
ALTERNATIVES = re.compile(r"\{([^{}]*)\}")
PACKAGE = re.compile(r"^package (talos[\w.]*);", re.MULTILINE)
ARGUMENTS = ("talos.config.",)
"""Arguments of the kernel's command line, which begin as a folder does."""
ELSEWHERE = ("kernel/x86/microcode/", "pkgs/keys/")
"""Of the initramfs; what a reader of the documentation puts there."""


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


def expand(path: str) -> list[str]:
    """The paths that a text with alternatives in braces means, as a shell has them."""
    found = ALTERNATIVES.search(path)
    if not found:
        return [path]
    before, after = path[: found.start()], path[found.end() :]
    return [one for part in found[1].split(",") for one in expand(f"{before}{part}{after}")]


def check_page(text: str, modules: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """The lines of a page that name a file or a folder which is not there."""
    for number, line in enumerate(text.splitlines(), 1):
        for path in (one for found in PAGE_PATH.findall(line) for one in expand(found)):
            is_module = path.endswith(".py") and any(module.endswith(f"/{path}") for module in modules)
            if not (is_module or path.startswith(ELSEWHERE) or (ROOT / path).exists()):
                yield number, f"{path}: there is no such file"


def find_page_problems() -> Iterator[str]:
    """Every problem of the documentation, with its place."""
    modules = tuple(str(path) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    for page in sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in PAGES)]):
        for number, problem in check_page(page.read_text(encoding="utf-8"), modules):
            yield f"{page.relative_to(ROOT)}:{number}: {problem}"


def main() -> int:
    """Print the problems."""
    packages, problems, count = read_packages(), list[str](), 0
    for path, text in find_texts():
        count += 1
        found = [*check_text(text, packages)]
        if str(path) in PATHS_IN:
            found += check_paths(text)
        problems += [f"{path}:{number}: {problem}" for number, problem in found]
    problems += find_page_problems()
    sys.stdout.write("\n".join([*problems, f"names: {count} files, {len(problems)} problems"]) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
