"""PID 1's side of a refresh: it runs the program for it and keeps in STATE what that has verified."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from talos.machined.tuf.trusted import (
    MAX_REASON,
    MAX_TRUSTED,
    PROGRAM,
    REFUSED,
    TrustedMetadata,
    format_request,
    format_trusted,
    parse_trusted,
)
from talos.system.errors import UserError
from talos.system.files import read_file, replace_durably
from talos.system.process import Finished, describe_exit, find_line

FILE = "sigstore.json"
"""In STATE."""

type Run = Callable[[Sequence[str], bytes], Awaitable[Finished]]
"""Runs a program with this input to its end; UserError when it can't be started."""


async def run_refresh(
    run: Run, trusted: TrustedMetadata, environment: Mapping[str, str]
) -> tuple[TrustedMetadata, str]:
    """What is trusted afterwards, and why the refresh has failed, if it has; UserError for a defect."""
    done = await run((PROGRAM,), format_request(trusted, environment))
    if done.code not in (0, REFUSED):
        raise UserError(f"failed with {describe_exit(done.code)}", where=PROGRAM)
    line = find_line(done, 0)[:MAX_REASON] if done.code else ""
    reason = "".join(one if one.isprintable() else "?" for one in line)
    return parse_trusted(done.stdout[:MAX_TRUSTED], PROGRAM), reason


def load_trusted(folder: Path) -> TrustedMetadata:
    """What is kept in a folder; nothing the first time. UserError."""
    path = folder / FILE
    return parse_trusted(read_file(path, MAX_TRUSTED), str(path)) if path.exists() else TrustedMetadata()


def keep_trusted(folder: Path, trusted: TrustedMetadata) -> None:
    """Replace what is kept; OSError, and the old file is then untouched."""
    replace_durably(folder / FILE, [format_trusted(trusted)], mode=0o600)
