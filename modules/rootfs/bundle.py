"""Write the modules of a node's start into one file; python/talos/startup/bundle.py has the reason.

The modules' own files go: the bundle takes their place.
"""

import marshal
from collections.abc import Iterable, Mapping
from pathlib import Path

PYC_HEADER = 16
"""Bytes before the code in a .pyc file."""


def make_bundle(
    out: Path, tree: Path, names: Iterable[str], *, runtime: str, objects: Mapping[str, bytes] | None = None
) -> None:
    """Bundle modules of `tree`, which will be found at `runtime`; those without bytecode are passed over.

    `objects` are marshalled, by names that no module has.
    """
    index: dict[str, tuple[int, int, str, bool]] = {}
    codes = bytearray()
    for name in names:
        found = find_bytecode(tree, name)
        if found is None:
            continue
        file, is_package = found
        code = file.read_bytes()[PYC_HEADER:]
        where = f"{runtime}/{name.replace('.', '/')}{'/__init__' if is_package else ''}.py"
        index[name] = (len(codes), len(code), where, is_package)
        codes += code
        file.unlink()
    for name in list(index):
        for parent in parents(name):
            if find_bytecode(tree, parent) is None:
                index.setdefault(parent, (0, 0, f"{runtime}/{parent.replace('.', '/')}", True))
    for name, data in (objects or {}).items():
        index[name] = (len(codes), len(data), "", False)
        codes += data
    head = marshal.dumps(index)
    out.write_bytes(len(head).to_bytes(8, "little") + head + codes)


def find_bytecode(tree: Path, name: str) -> tuple[Path, bool] | None:
    """The file of a module, and whether it is a package; beside its source's place or in __pycache__."""
    folder = tree.joinpath(*name.split("."))
    for file, is_package in (
        (folder / "__init__.pyc", True),
        (folder / "__pycache__/__init__.cpython-313.pyc", True),
        (folder.with_name(folder.name + ".pyc"), False),
        (folder.parent / "__pycache__" / f"{folder.name}.cpython-313.pyc", False),
    ):
        if file.exists():
            return file, is_package
    return None


def parents(name: str) -> list[str]:
    """Every package above a module."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]
