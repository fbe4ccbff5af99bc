"""A cloud's metadata server, which a machine reaches directly."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import trio

from talos.machined.platform.config_sources.variables import wait_for_network
from talos.machined.platform.config_sources.web import RETRY_BACKOFF, TOTAL_TIMEOUT, Report
from talos.process.fetch import FetchBounds, FetchError, NotThereError, Request, send
from talos.resource.state import State
from talos.system.urls import without_secrets

LINK_LOCAL = "http://169.254.169.254"
"""Where most clouds have it."""
BOUNDS = FetchBounds(timeout=60.0, silence=10.0)

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
        return (await self._query(request))[1]

    async def get_all(
        self, base: str, names: Iterable[str], headers: Mapping[str, str] = NOTHING
    ) -> dict[str, bytes]:
        """The parts that are there, by their names."""
        found = {name: await self.get(f"{base}/{name}", headers) for name in names}
        return {name: data for name, data in found.items() if data}

    async def get_token(self, url: str, headers: Mapping[str, str]) -> str:
        """A token that the server gives for other requests."""
        return (await self.find_token((url,), headers))[1]

    async def find_token(self, urls: Iterable[str], headers: Mapping[str, str]) -> tuple[str, str]:
        """The first of some URLs at which there is an answer, and the token of that server."""
        answered, data = await self._query(*(Request(url=url, headers=headers, method="PUT") for url in urls))
        return answered.url, data.decode("ascii", "replace").strip()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Send a document."""
        await self._query(Request(url=url, headers=headers, method="POST", body=body))

    async def _query(self, *requests: Request) -> tuple[Request, bytes]:
        """The first request that is answered, and the answer; the first one, and none, when none is."""
        with trio.move_on_after(TOTAL_TIMEOUT):
            await wait_for_network(self.state)
            for delay in RETRY_BACKOFF:
                failures: list[str] = []
                for request in requests:
                    try:
                        return request, await self.send(request)
                    except NotThereError:
                        return request, b""
                    except FetchError as error:
                        failures.append(f"can't fetch {without_secrets(request.url)}: {error}")
                self.report(f"{'; '.join(failures)}, next try in {delay:.0f} s")
                await trio.sleep(delay)
        return requests[0], b""
