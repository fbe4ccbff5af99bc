"""Virtual addresses in Hetzner's cloud, whose network takes no announcements: its API moves them.

https://docs.hetzner.cloud/reference/cloud
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any, cast

from talos.process.fetch import make_opener
from talos.system.logging import make_printable
from talos.system.parsed import as_object

API = "https://api.hetzner.cloud/v1"
METADATA = "http://169.254.169.254/hetzner/v1/metadata"
TAKE_TIMEOUT = 6.0
"""Seconds for all calls together: the lease of the election lasts little longer."""
CALL_TIMEOUT = 3.0
"""Seconds without a byte from a server."""
RETRY_INTERVAL = 0.5
"""Seconds between two attempts while a server is busy with a change."""
BUSY = frozenset({409, 422, 423, 429, 503})
"""HTTP statuses of what may go in a moment: an address that has not left its owner, a locked server."""
MAX_REPLY = 4 * 1024 * 1024
"""Bytes; a page of fifty servers has some hundred thousand."""
PAGE, MAX_PAGES = 50, 100
MAX_DIGITS = 20
"""Of a server's number."""
MAX_TEXT = 200
"""Characters of an error that the API replies with."""

type Fields = Mapping[str, Any]


class CloudError(OSError):
    """The address could not be moved. It is in the text why, and never the token."""


class _BusyError(CloudError):
    """It may go in a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HetznerCloud:
    """The API for the server that this runs on. All calls block."""

    token: str
    api: str = API
    metadata: str = METADATA

    def take(self, address: IPv4Address | IPv6Address) -> None:
        """Have an address lead to this server: as an alias in its private network, or floating. CloudError.

        No other server has it then. The aliases and addresses beside it stay.
        """
        try:
            self._take(address)
        except ValueError as error:  # such as of a network that is none
            raise CloudError(f"a reply makes no sense: {make_printable(str(error))[:MAX_TEXT]}") from None

    def _take(self, address: IPv4Address | IPv6Address) -> None:
        end = time.monotonic() + TAKE_TIMEOUT
        own = self._find_own_id(end)
        server = as_object(self._call(end, "GET", f"/servers/{own}").get("server"))
        network = self._find_network(end, server, address)
        if network is None:
            self._assign_floating(end, own, address)
            return
        for other in self._list(end, "/servers", "servers"):
            aliases = _find_aliases(other, network)
            if other.get("id") != own and str(address) in aliases:
                self._set_aliases(
                    end, other.get("id"), network, [one for one in aliases if one != str(address)]
                )
        aliases = _find_aliases(server, network)
        if str(address) not in aliases:
            self._set_aliases(end, own, network, [*aliases, str(address)])

    def _find_own_id(self, end: float) -> int:
        text = self._send(end, "GET", f"{self.metadata}/instance-id", None).decode("ascii", "replace").strip()
        if not text.isdecimal() or len(text) > MAX_DIGITS:
            raise CloudError("the metadata server names no instance: this is no server of Hetzner's cloud")
        return int(text)

    def _find_network(self, end: float, server: Fields, address: IPv4Address | IPv6Address) -> int | None:
        """The private network of the server that an address belongs to."""
        for attached in _objects(server.get("private_net")):
            number = attached.get("network")
            network = as_object(self._call(end, "GET", f"/networks/{number}").get("network"))
            try:
                if address in ip_network(str(network.get("ip_range"))):
                    return cast("int", number)
            except ValueError:
                continue
        return None

    def _assign_floating(self, end: float, own: int, address: IPv4Address | IPv6Address) -> None:
        for found in self._list(end, "/floating_ips", "floating_ips"):
            ip = str(found.get("ip"))
            # Of IPv6 a whole network floats.
            if str(address) == ip or ("/" in ip and address in ip_network(ip, strict=False)):
                if found.get("server") != own:
                    self._act(end, f"/floating_ips/{found.get('id')}/actions/assign", {"server": own})
                return
        raise CloudError("it is neither in a private network of this server nor a floating address")

    def _set_aliases(self, end: float, server: object, network: int, aliases: list[str]) -> None:
        self._act(
            end, f"/servers/{server}/actions/change_alias_ips", {"network": network, "alias_ips": aliases}
        )

    def _act(self, end: float, path: str, body: Fields) -> None:
        """Change something, as soon as the cloud is not busy with it."""
        while True:
            try:
                self._call(end, "POST", path, body)
            except _BusyError:
                if time.monotonic() + RETRY_INTERVAL > end:
                    raise
                time.sleep(RETRY_INTERVAL)
            else:
                return

    def _list(self, end: float, path: str, key: str) -> Iterator[Fields]:
        page: object = 1
        for _ in range(MAX_PAGES):
            reply = self._call(end, "GET", f"{path}?per_page={PAGE}&page={page}")
            yield from _objects(reply.get(key))
            page = as_object(as_object(reply.get("meta")).get("pagination")).get("next_page")
            if not isinstance(page, int):
                return

    def _call(self, end: float, method: str, path: str, body: Fields | None = None) -> Fields:
        try:
            return as_object(json.loads(self._send(end, method, self.api + path, body)))
        except (ValueError, RecursionError):
            raise CloudError(f"{path}: the reply is no JSON") from None

    def _send(self, end: float, method: str, url: str, body: Fields | None) -> bytes:
        # Nodes elsewhere never need it.
        import http.client
        import urllib.error
        import urllib.request

        left = min(CALL_TIMEOUT, end - time.monotonic())
        if left <= 0:
            raise CloudError(f"not done within {TAKE_TIMEOUT:g} s")
        opener = make_opener(timeout=left)  # without redirects, which would get the token
        headers = {"Content-Type": "application/json"}
        if url.startswith(self.api):
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, headers=headers, method=method)  # noqa: S310 - no other schemes
        place = url.removeprefix(self.api).partition("?")[0]
        try:
            with opener.open(request, timeout=left) as reply:
                found: bytes = reply.read(MAX_REPLY)
                return found
        except urllib.error.HTTPError as error:
            with error:
                kind = _BusyError if error.code in BUSY else CloudError
                raise kind(f"{place}: {error.code} {_read_error(error.read(MAX_REPLY))}".strip()) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = (
                getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
            )
            raise CloudError(f"{place}: {make_printable(str(reason))[:MAX_TEXT]}") from None


def _read_error(body: bytes) -> str:
    try:
        error = as_object(as_object(json.loads(body)).get("error"))
        return make_printable(str(error.get("message")))[:MAX_TEXT]
    except (ValueError, RecursionError):
        return ""


def _find_aliases(server: Fields, network: int) -> list[str]:
    """The aliases of a server in a network."""
    found: list[str] = []
    for attached in _objects(server.get("private_net")):
        if attached.get("network") == network:
            aliases: object = attached.get("alias_ips")
            found += map(str, cast("list[object]", aliases) if isinstance(aliases, list) else ())
    return found


def _objects(value: object) -> list[Fields]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [as_object(item) for item in items]
