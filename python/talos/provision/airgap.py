"""``nix run .#airgap -- DIR``: what a site without a network needs, in one folder."""

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from talos.system.errors import UserError
from talos.system.files import hash_file

FILES = "TALOS_AIRGAP_FILES"
"""The variable with what is copied: NAME=PATH, separated by colons."""
README, SUMS = "README.md", "SHA256SUMS"
FAILED = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit code."""
    parser = argparse.ArgumentParser(
        prog="airgap", description="Write what a site without a network needs into one folder."
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="the folder to make")
    directory: Path = parser.parse_args(argv).directory
    try:
        size = write_folder(directory, parse_files(os.environ.get(FILES, "")))
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        return FAILED
    except OSError as error:
        sys.stderr.write(f"error: {error.filename or directory}: {error.strerror}; is there room?\n")
        return FAILED
    sys.stdout.write(f"{directory}: {size / 1_000_000:.0f} MB; {directory / README} has the steps\n")
    return 0


def parse_files(text: str) -> dict[str, Path]:
    """The files and folders to copy by their names; UserError."""
    pairs = [word.partition("=") for word in text.split(":") if word]
    if not pairs or not all(name and path for name, _, path in pairs):
        raise UserError("names no files", where=FILES, hint="start it by `nix run .#airgap`")
    return {name: Path(path) for name, _, path in pairs}


def write_folder(directory: Path, files: Mapping[str, Path]) -> int:
    """Make the folder as a whole; the bytes in it. UserError, OSError."""
    if directory.exists():
        raise UserError("is there already", where=str(directory), hint="remove it, or name another folder")
    new = directory.with_name(f"{directory.name}.new")
    if new.exists():
        shutil.rmtree(new)
    new.mkdir(parents=True)
    for name, source in files.items():
        copy(source, new / name)
    (new / SUMS).write_text("".join(make_sums(new)), encoding="utf-8")
    new.rename(directory)
    return sum(path.stat().st_size for path in list_files(directory))


def copy(source: Path, target: Path) -> None:
    """Copy a file or a folder; links are followed, and what may be run stays so."""
    if source.is_dir():
        target.mkdir()
        for path in sorted(source.iterdir()):
            copy(path, target / path.name)
        return
    shutil.copyfile(source, target)
    target.chmod(0o755 if source.stat().st_mode & 0o111 else 0o644)


def list_files(folder: Path) -> list[Path]:
    """All files below a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def make_sums(folder: Path) -> Iterator[str]:
    """What sha256sum writes of the folder's files."""
    for path in list_files(folder):
        yield f"{hash_file(path)}  {path.relative_to(folder)}\n"
