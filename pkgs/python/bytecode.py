"""Compile Python once, at build time: roots are read-only, so it can't be done later."""

import py_compile
import shutil
from importlib.util import cache_from_source
from pathlib import Path


def compile_tree(tree: Path, *, runtime: str, keep_source: bool) -> None:
    """Compile every module below `tree`, which will be found at `runtime`.

    Without sources the bytecode takes the module's place: tracebacks name file and line, but don't quote it.
    One process and a fixed order, because marshal's output depends on what was interned before.
    """
    for source in sorted(tree.rglob("*.py")):
        where = f"{runtime}/{source.relative_to(tree)}"
        compiled = Path(cache_from_source(str(source))) if keep_source else source.with_suffix(".pyc")
        py_compile.compile(
            str(source),
            cfile=str(compiled),
            dfile=where,
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
        if not keep_source:
            source.unlink()


def copy_tree(source: Path, target: Path, *, leave_out: tuple[str, ...] = ()) -> None:
    """Copy a tree out of the store and make it writable; `leave_out` are glob patterns of names."""
    shutil.copytree(
        source, target, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*leave_out)
    )
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o200)
