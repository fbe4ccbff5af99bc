"""Files that commands write."""

from pathlib import Path

from talos.system.errors import UserError
from talos.system.files import replace_file


def check_absent(*paths: Path, force: bool) -> None:
    """Refuse to replace a file without force, before the first of several is written."""
    for path in paths:
        if path.exists() and not force:
            raise UserError(f'file "{path}" already exists, use --force to overwrite')


def write_file(path: Path, content: str | bytes, *, force: bool, mode: int = 0o600) -> None:
    """Write a file whole or not at all; one that exists is only replaced by force."""
    if path.is_dir():
        raise UserError("is a folder", where=str(path), hint="name a file")
    check_absent(path, force=force)
    replace_file(path, content.encode() if isinstance(content, str) else content, mode=mode)
