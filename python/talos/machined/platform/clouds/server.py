"""A cloud's metadata server, which a machine reaches directly."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import trio

from talos.machined.platform.config_sources.variables import wait_for_network
from talos.machined.platform.config_sources.web import RETRY_BACKOFF, TOTAL_LIMIT, Report
from talos.process.fetch import FetchBounds, FetchError, NotThereError, Request, send
from talos.resource.state import State
from talos.system.urls import without_secrets

LINK_LOCAL = "http://169.254.169.254"
"""Where most clouds have it."""
BOUNDS = FetchBounds(time_limit=60.0, silence=10.0)

NOTHING: Mapping[str, str] = MappingProxyType({})

type Send = Callable[[Request], Awaitable[bytes]]
"""FetchError, NotThereError."""


async def send_in_thread(request: Request) -> bytes:
    """Send in a thread; when cancelled, the thread runs into its own time limit."""
    work = partial(send, request, bounds=BOUNDS)
    return (await trio.to_thread.run_sync(work, abandon_on_cancel=True)).data


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataServer:
    """Reads parts of what a server has. It tries again for three hours when the server does not answer."""

    state: State
    report: Report
    """Called with every failure that is followed by another try."""
    send: Send = send_in_thread

    async def get(
        self,
        url: str,
        headers: Mapping[str, str] = NOTHING,
        environment: Mapping[str, str] = NOTHING,
        *,
        low_port: bool = False,
    ) -> bytes:
        """The part; empty when there is none, or no answer."""
        request = Request(url=url, headers=headers, environment=environment, low_port=low_port)
        return await self._try(request)

    async def get_all(
        self, base: str, names: Iterable[str], headers: Mapping[str, str] = NOTHING
    ) -> dict[str, bytes]:
        """The parts that are there, by their names."""
        found = {name: await self.get(f"{base}/{name}", headers) for name in names}
        return {name: data for name, data in found.items() if data}

    async def get_token(self, url: str, headers: Mapping[str, str]) -> str:
        """A token that the server gives for other requests."""
        data = await self._try(Request(url=url, headers=headers, method="PUT"))
        return data.decode("ascii", "replace").strip()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Send a document."""
        await self._try(Request(url=url, headers=headers, method="POST", body=body))

    async def _try(self, request: Request) -> bytes:
        with trio.move_on_after(TOTAL_LIMIT):
            await wait_for_network(self.state)
            for delay in RETRY_BACKOFF:
                try:
                    return await self.send(request)
                except NotThereError:
                    return b""
                except FetchError as error:
                    shown = without_secrets(request.url)
                    self.report(f"can't fetch {shown}: {error}, next try in {delay:.0f} s")
                await trio.sleep(delay)
        return b""
