"""The program that PID 1 starts once a day for Sigstore's trusted root: it fetches, confined and bounded.

What a server of the internet sends is read here only, with no right but to connect to servers.
"""

import resource
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from talos.machined.tuf.refresh import choose_root, refresh
from talos.machined.tuf.trusted import (
    MAX_REASON,
    MAX_TRUSTED,
    REFUSED,
    format_trusted,
    parse_request,
)
from talos.process.confined import confine_program
from talos.process.fetch import FetchBounds, FetchError, NotThereError, RefusedError, fetch
from talos.system.errors import UserError
from talos.system.sandbox import INTERNET

REPOSITORY = "https://tuf-repo-cdn.sigstore.dev"
OF_SIGSTORE = Path(__file__).with_name("root.json")
"""A root of that repository, by whose keys those after it are verified."""
MAX_TIME = 30
"""Seconds of processor time."""
FILE_TIMEOUT = 60.0
"""Seconds for one file."""


def main() -> None:
    """Refresh what is trusted on stdin; the exit code is 0 when that was possible.

    What is trusted afterwards is on stdout, also when a refresh fails halfway, and on stderr the reason.
    """
    limits = {resource.RLIMIT_CPU: MAX_TIME, resource.RLIMIT_FSIZE: MAX_TRUSTED}
    confine_program("refresh-trusted-root", limits, INTERNET)
    output, reason = run(sys.stdin.buffer.read(), REPOSITORY, OF_SIGSTORE.read_text(encoding="utf-8"))
    sys.stdout.buffer.write(output)
    if reason:
        sys.stderr.write(f"{reason}\n")
        sys.exit(REFUSED)


def run(data: bytes, repository: str, anchor: str) -> tuple[bytes, str]:
    """What is trusted after a refresh, and why it has failed; the ``anchor`` is a root that is trusted."""
    try:
        trusted, environment = parse_request(data)
    except UserError as error:
        return b"", str(error)

    def fetch_file(name: str, bound: int) -> bytes | None:
        url = f"{repository}/{name}"
        bounds = FetchBounds(max_bytes=bound, timeout=FILE_TIMEOUT)
        try:
            return fetch(url, environment=environment, bounds=bounds).data
        except (NotThereError, RefusedError):
            # A store of objects whose list is not public replies 403 for what it does not have.
            return None
        except FetchError as error:
            raise UserError(str(error), where=url) from None

    reason = ""
    trusted = replace(trusted, root=choose_root(trusted.root, anchor))
    try:
        for step in refresh(trusted, fetch_file, datetime.now(UTC)):
            trusted = step
    except UserError as error:
        reason = " ".join(str(error)[:MAX_REASON].splitlines())
    except MemoryError:
        reason = "it takes too much memory"
    return format_trusted(trusted), reason
