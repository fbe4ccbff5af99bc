"""A config from a web server, fetched with retries."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import trio

from talos.machined.platform.arguments import OAUTH, OAUTH_CLIENT
from talos.machined.platform.config_sources.variables import (
    CODE,
    collect_values,
    fill_url,
    find_variables,
    wait_for_network,
)
from talos.process.fetch import Fetched, FetchError, NotThereError, RefusedError, fetch
from talos.resource.state import State
from talos.system.backoff import Backoff
from talos.system.errors import UserError
from talos.system.files import Files
from talos.system.proc.cmdline import Cmdline
from talos.system.urls import without_secrets

TOTAL_TIMEOUT = 3 * 3600.0
"""Seconds after which fetching stops (as upstream)."""
RETRY_BACKOFF = Backoff(1.0, 30.0)
"""Seconds between two attempts."""

type Report = Callable[[str], None]
"""Called with every failure that is retried."""


async def fetch_in_thread(url: str, headers: Mapping[str, str], environment: Mapping[str, str]) -> Fetched:
    """Fetch in a thread; when cancelled, the thread runs into its own time limit."""
    return await trio.to_thread.run_sync(fetch, url, headers, environment, abandon_on_cancel=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSource:
    """Loads configs from URLs."""

    state: State
    files: Files
    report: Report
    inform: Report
    """Called with what a person has to do."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """It may name proxies."""
    fetch: Callable[[str, Mapping[str, str], Mapping[str, str]], Awaitable[Fetched]] = fetch_in_thread

    async def load(
        self, template: str, *, where: str = "talos.config", arguments: Cmdline | None = None
    ) -> bytes:
        """The file; empty when the server has none for this machine, or never answered.

        Where ``arguments`` name a client of OAuth, a person has to let the machine have it.

        UserError: when the URL can't be one.
        """
        names = find_variables(template)
        with trio.move_on_after(TOTAL_TIMEOUT):
            await wait_for_network(self.state)
            values = await collect_values(self.state, self.files, names)
            url, shown = fill_url(template, values), show_url(template, values)
            if not url.lower().startswith(("http://", "https://")):
                raise UserError(
                    f'"{shown}" is not supported',
                    where=where,
                    hint="use http://, https://, metal-iso or none",
                )
            authorize = await self._make_authorize(arguments, url) if arguments else None
            return await self._try(url, shown, where, authorize)
        self.report(
            f"{where}: no config from {without_secrets(template)} within {TOTAL_TIMEOUT / 3600:.0f} h"
        )
        return b""

    async def _make_authorize(self, arguments: Cmdline, url: str) -> Callable[[], Awaitable[str]] | None:
        if not arguments.first(OAUTH_CLIENT):
            return None
        # Few machines have such a client.
        from talos.machined.platform.config_sources.oauth import VARIABLE, make_client
        from talos.process.device_flow import DeviceFlow

        def inform(text: str) -> None:
            self.inform(f"{OAUTH}*: {text}")

        client = make_client(arguments, url)
        values = await collect_values(self.state, self.files, arguments.all(VARIABLE))
        flow = DeviceFlow(client=client, variables=values, inform=inform, environment=self.environment)

        async def authorize() -> str:
            token = await flow.authorize()
            inform("the machine may have its config")
            return token

        return authorize

    async def _try(
        self, url: str, shown: str, where: str, authorize: Callable[[], Awaitable[str]] | None
    ) -> bytes:
        delays, headers = iter(RETRY_BACKOFF), dict[str, str]()
        while True:
            try:
                if authorize and not headers:
                    headers = {"Authorization": f"Bearer {await authorize()}"}
                return (await self.fetch(url, headers, self.environment)).data
            except NotThereError as error:
                self.report(f"{where}: there is no config at {shown}: {error}")
                return b""
            except FetchError as error:
                if isinstance(error, RefusedError):
                    headers = {}
                delay = next(delays)
                self.report(f"{where}: can't fetch {shown}: {error}, next try in {delay:.0f} s")
            await trio.sleep(delay)


def show_url(template: str, values: Mapping[str, str]) -> str:
    """The URL as everybody may see it who reads the log: in place of the code is its variable."""
    parts = without_secrets(template).split(f"${{{CODE}}}")
    return f"${{{CODE}}}".join(fill_url(part, values) for part in parts)
