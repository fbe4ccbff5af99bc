"""Files that commands write."""

import os
import secrets
from pathlib import Path

from talos.system.errors import UserError


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
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"can't be written: {error.strerror}", where=str(path)) from error
