"""Files that firmware has loaded over the network, and that an installation needs once more."""

from functools import partial
from pathlib import Path

import trio

from talos.machined.platform.config_sources.variables import wait_for_network
from talos.machined.platform.config_sources.web import Report
from talos.process.fetch import FetchBounds, FetchError, NotThereError, download
from talos.resource.state import State
from talos.system.backoff import Backoff
from talos.system.errors import UserError
from talos.system.urls import without_secrets

MAX_BYTES = 512 << 20
"""Of one file: a UKI has some 75 MB, and what its extensions add."""
TOTAL_TIMEOUT = 900.0
"""Seconds for one file with all attempts; firmware has taken as long for it."""
RETRY_BACKOFF = Backoff(1.0, 30.0)
"""Seconds between two attempts."""


async def load_boot_file(state: State, report: Report, url: str, path: Path) -> None:
    """Write it to a path; ``report`` is called with every failure that is retried. UserError."""
    bounds = FetchBounds(max_bytes=MAX_BYTES, timeout=TOTAL_TIMEOUT)
    where = without_secrets(url)
    with trio.move_on_after(TOTAL_TIMEOUT):
        await wait_for_network(state)
        for delay in RETRY_BACKOFF:
            try:
                await trio.to_thread.run_sync(
                    partial(download, url, path, bounds=bounds), abandon_on_cancel=True
                )
            except NotThereError as error:
                raise UserError(f"is not there: {error}", where=where) from None
            except FetchError as error:
                report(f"{where}: {error}, next try in {delay:.0f} s")
                await trio.sleep(delay)
            else:
                return
    raise UserError(f"did not come within {TOTAL_TIMEOUT:.0f} s", where=where)
