"""Holds the rules that ruff can't express; `make lint` and `nix flake check` run it.

layers      no module imports upward, a daemon never imports another daemon
packages    nor does one of a folder's packages, where layers.toml has an order of them
network     modules that read what comes from the network are imported where layers.toml has it
one door    subprocesses are started by talos.system.process only
kernel      ioctl, ctypes, termios, netlink and packet sockets are used in talos.system only
size        no file over 600 lines
namespace   no __init__.py: `talos` is one namespace, assembled from a derivation per folder
docs        the picture and the table of folders in docs/architecture.md are those of python/layers.toml;
            with --write they are brought up to date
"""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2] / "python"
LAYERS: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "layers.toml").read_text(encoding="utf-8"))
"""Folder of python/talos to its row; the file explains the columns."""

DOCS = ROOT.parent / "docs/architecture.md"
BEGIN, END = "<!-- layers: from python/layers.toml -->\n", "\n<!-- end of layers -->"
MAX_LINES = 600
PROCESS_MODULES = {"subprocess"}
THE_DOOR = Path("talos/system/process.py")
KERNEL_MODULES = {"ctypes", "fcntl", "pyroute2", "pyudev", "termios"}
NETWORK_MODULES = {
    "bz2",
    "email",
    "ftplib",
    "gzip",
    "html",
    "http",
    "lzma",
    "ssl",
    "tarfile",
    "xml",
    "zipfile",
}
"""Modules of Python that speak with the network or read its formats."""

KERNEL_NAMES = {"AF_NETLINK", "AF_PACKET"}
MESSAGE_FORMATS = ("pyroute2.dhcp.",)
"""Parts of those modules that only encode and decode."""


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """List every imported module with its line, those inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, "." * node.level
        elif isinstance(node, ast.ImportFrom) and node.module == "talos":
            yield from ((node.lineno, f"talos.{name.name}") for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module


def may_import(folder: str, other: str) -> bool:
    """Whether code in one folder may import another's."""
    row, below = LAYERS[folder], LAYERS[other]
    if folder == other or other in row.get("beside", ()):
        return True
    if row["layer"] <= below["layer"]:
        return False
    # A workstation has no daemons, and nothing but tests has the twins; tests see everything.
    return row["on"] == ["tests"] or set(row["on"]) <= set(below["on"])


def find_group(folder: str, package: str) -> int | None:
    """Which group of its folder's packages a package is in; None of modules that lie in none."""
    groups = LAYERS[folder].get("packages", ())
    return next((number for number, group in enumerate(groups) if package in group), None)


def may_import_package(folder: str, package: str, other: str = "") -> bool:
    """Whether code in one package of a folder may import another's."""
    own, below = find_group(folder, package), find_group(folder, other)
    return package == other or own is None or below is None or below < own


def check_imports(name: Path, tree: ast.AST) -> Iterator[str]:
    """Report imports against the rules."""
    folder = name.parts[1]
    for line, module in imported(tree):
        where = f"{name}:{line}"
        if module.startswith("."):
            yield f"{where}: relative import; write the name from `talos` on"
        if module.split(".")[0] in PROCESS_MODULES and name != THE_DOOR:
            yield f"{where}: imports {module}; start processes through talos.system.process"
        if module.split(".")[0] in KERNEL_MODULES and is_far_from_kernel(folder, module):
            yield f"{where}: imports {module}; only talos.system touches the kernel"
        if module.split(".")[0] in NETWORK_MODULES and not may_read_network(folder, name):
            yield f"{where}: imports {module}; {folder} reads from the network only where layers.toml has it"
        parts = module.split(".")
        if parts[0] != "talos" or len(parts) == 1:
            continue
        if parts[1] not in LAYERS:
            yield f"{where}: talos.{parts[1]} has no layer; give it one in python/layers.toml"
        elif not may_import(folder, parts[1]):
            yield f"{where}: talos.{folder} must not import {module}: it is in no layer below"
        elif folder == parts[1] and not may_import_package(folder, name.parts[2], *parts[2:3]):
            yield f"{where}: {name.parts[2]}/ must not import {module}: layers.toml has it beside or above"


def may_read_network(folder: str, name: Path) -> bool:
    """Whether a module may read what comes from the network; folders without such a list are free."""
    places: dict[str, str] | None = LAYERS[folder].get("network")
    own = "/".join(name.parts[2:])
    return places is None or any(
        own == place or (place[-1] == "/" and own.startswith(place)) for place in places
    )


def is_far_from_kernel(folder: str, module: str) -> bool:
    """Whether a folder has to leave such modules to talos.system; the workstation's are free."""
    on_node = "node" in LAYERS[folder]["on"] and folder != "system"
    return on_node and not module.startswith(MESSAGE_FORMATS)


def check_names(name: Path, tree: ast.AST) -> Iterator[str]:
    """Report kinds of sockets that only talos.system opens."""
    if not is_far_from_kernel(name.parts[1], ""):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in KERNEL_NAMES:
            yield f"{name}:{node.lineno}: {node.attr}; only talos.system touches the kernel"


def check_file(root: Path, path: Path) -> Iterator[str]:
    """Report what is wrong with one file."""
    name = path.relative_to(root)
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    if lines > MAX_LINES:
        yield f"{name}: {lines} lines, at most {MAX_LINES}; split it"
    if path.name == "__init__.py":
        yield f"{name}: namespace packages have no __init__.py"
    if name.parts[1] not in LAYERS:
        yield f"{name}: talos.{name.parts[1]} has no layer; give it one in python/layers.toml"
        return
    tree = ast.parse(text, filename=str(path))
    yield from check_imports(name, tree)
    yield from check_names(name, tree)


def render_docs() -> str:
    """The picture of the layers and the table of folders, as docs/architecture.md has them."""
    layers = sorted({row["layer"] for row in LAYERS.values()})
    lines = ["```mermaid", "flowchart BT"]
    for layer in layers:
        folders = " & ".join(name for name, row in LAYERS.items() if row["layer"] == layer)
        lines += [f"  subgraph layer{layer} [layer {layer}]", f"    {folders}", "  end"]
    lines += ["  " + " --> ".join(f"layer{layer}" for layer in layers), "```", ""]
    lines += ["| layer | folder | on | what a reader finds there |", "|---|---|---|---|"]
    lines += [
        f"| {row['layer']} | `{name}/` | {', '.join(row['on'])} | {row['about']} |"
        for name, row in LAYERS.items()
    ]
    return "\n".join(lines)


def check_docs(*, write: bool) -> Iterator[str]:
    """Report a picture of the layers that is out of date, or mend it."""
    text = DOCS.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    old, _, tail = rest.partition(END)
    new = f"\n{render_docs()}\n"
    if old != new and write:
        DOCS.write_text(f"{head}{BEGIN}{new}{END}{tail}", encoding="utf-8")
    elif old != new:
        yield f"{DOCS.name}: the layers are out of date; run tests/lint/layers.py --write"


def main() -> int:
    """Check everything below python/."""
    files = [path for path in sorted(ROOT.rglob("*.py")) if not path.name.endswith("_pb2.py")]
    problems = [problem for path in files for problem in check_file(ROOT, path)]
    problems += check_docs(write="--write" in sys.argv[1:])
    for problem in problems:
        sys.stdout.write(problem + "\n")
    sys.stdout.write(f"layers: {len(files)} files, {len(problems)} problems\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
