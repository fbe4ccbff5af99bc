"""talosctl @version@ for Python 3.13. The first run unpacks the program into the user's cache."""

import sys

# The syntax of this file is one that earlier versions read, too.
if sys.version_info[:2] < (3, 13):  # noqa: UP036
    sys.exit(f"talosctl: needs Python 3.13, this is {sys.version.split()[0]}")

import os
from importlib.util import find_spec
from pathlib import Path

REQUIRED = dict(word.split("=", 1) for word in "@required@".split())  # noqa: SIM905
"""Modules that are compiled for each system, and the packages that bring them."""


def unpack(root: Path) -> None:
    """Make the folder of the program; another run may do the same meanwhile."""
    import shutil
    import tarfile
    import tempfile
    import zipfile

    root.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix="new.", dir=root.parent))
    try:
        with (
            zipfile.ZipFile(sys.path[0]) as file,
            file.open("program.tar.gz") as packed,
            tarfile.open(fileobj=packed) as archive,
        ):
            archive.extractall(new, filter="data")
        try:
            new.rename(root)
        except OSError:
            if not root.is_dir():
                raise
    finally:
        shutil.rmtree(new, ignore_errors=True)


def find_root() -> Path:
    """Where the program is unpacked: as the file for x86_64 Linux, each version by its hash."""
    home = os.environ.get("HOME")
    cache = os.environ.get("XDG_CACHE_HOME") or (home and f"{home}/.cache")
    if not cache:
        sys.exit(
            "talosctl: neither HOME nor XDG_CACHE_HOME is set: set one, below which the program is unpacked"
        )
    return Path(cache, "talosctl", "@digest@")


def main() -> None:
    """Check what is needed, unpack once, start."""
    if missing := [package for module, package in REQUIRED.items() if find_spec(module) is None]:
        sys.exit(f"talosctl: packages are missing: python3.13 -m pip install {' '.join(missing)}")
    root = find_root()
    if not root.is_dir():
        try:
            unpack(root)
        except OSError as error:
            remedy = "set XDG_CACHE_HOME to a folder with room"
            sys.exit(f"talosctl: can't unpack into {root.parent}: {error.strerror}: {remedy}")
    # The one that all have: a compiled one of the host's may be of another version than the messages' code.
    os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
    sys.path[:1] = [str(root / "program"), str(root / "site")]
    from talos.talosctl.main import main

    main()


main()
