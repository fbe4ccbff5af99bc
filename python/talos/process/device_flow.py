"""The device flow of OAuth 2.0 (RFC 8628): a person lets a program, which shows a code, have a token."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio

from talos.process.fetch import FetchError, post_form
from talos.system.logging import make_printable
from talos.system.parsed import parse_object
from talos.system.urls import without_secrets

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
INTERVAL, SLOWER, MAX_INTERVAL = 5.0, 5.0, 60.0
"""Seconds between two requests for the token: where none are named, more when it has to be slower, most."""
MAX_CODE_TTL = 3600.0
"""Seconds after which another code is shown, also when the server names more."""
MAX_SHOWN = 300
"""Characters of a text of the server's on the console."""
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")


async def post_in_thread(
    url: str, fields: Mapping[str, str], environment: Mapping[str, str], *, authorities: str = ""
) -> tuple[int, bytes]:
    """Post in a thread; when cancelled, the thread runs into its own time limit."""
    post = partial(post_form, url, fields, environment, authorities=authorities)
    return await trio.to_thread.run_sync(post, abandon_on_cancel=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The client of OAuth, and its servers."""

    id: str
    secret: str = field(repr=False)
    scope: str
    audience: str
    device_url: str
    token_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFlow:
    """Gets a token. ``inform`` is called with what the person has to do.

    ``wanted`` is the member of the reply that is the token: ``access_token``, or ``id_token``.
    """

    client: Client
    variables: Mapping[str, str]
    inform: Callable[[str], None]
    wanted: str = "access_token"
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    post: Callable[[str, Mapping[str, str], Mapping[str, str]], Awaitable[tuple[int, bytes]]] = post_in_thread

    async def authorize(self) -> str:
        """Wait for the person; the token. FetchError: this time there is none."""
        return find_token(await self.get_reply(), self.wanted)

    async def get_reply(self) -> dict[str, Any]:
        """Wait for the person; all of the reply that has the token. FetchError."""
        client = self.client
        fields = {"client_id": client.id, "scope": client.scope, "audience": client.audience}
        fields = {name: value for name, value in fields.items() if value} | dict(self.variables)
        status, reply = await self._request(client.device_url, fields)
        device_code = reply.get("device_code")
        if status != 200 or not isinstance(device_code, str):
            raise FetchError(_describe(client.device_url, status, reply))
        self._show(reply)
        with trio.move_on_after(_number(reply.get("expires_in"), MAX_CODE_TTL)):
            return await self._wait(device_code, _number(reply.get("interval"), INTERVAL))
        raise FetchError("its code has expired before it was confirmed")

    def _show(self, reply: Mapping[str, Any]) -> None:
        # Some servers have the name of a draft of the standard.
        uri = reply.get("verification_uri") or reply.get("verification_url")
        self.inform(f"visit {_shorten(uri)} and enter the code {_shorten(reply.get('user_code'))}")
        if reply.get("verification_uri_complete"):
            self.inform(f"or visit {_shorten(reply['verification_uri_complete'])}")

    async def _wait(self, device_code: str, interval: float) -> dict[str, Any]:
        client = self.client
        fields = {"grant_type": GRANT, "device_code": device_code, "client_id": client.id}
        if client.secret:
            fields["client_secret"] = client.secret
        while True:
            await trio.sleep(min(interval, MAX_INTERVAL))
            try:
                status, reply = await self._request(client.token_url, fields)
            except FetchError:
                interval *= 2
                continue
            if status == 200:
                return reply
            match reply.get("error"):
                case "authorization_pending":
                    pass
                case "slow_down":
                    interval += SLOWER
                case _:
                    raise FetchError(_describe(client.token_url, status, reply))

    async def _request(self, url: str, fields: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        status, body = await self.post(url, fields, self.environment)
        return status, parse_object(body)


def find_token(reply: Mapping[str, Any], wanted: str) -> str:
    """A member of a reply of the token endpoint; FetchError."""
    token = reply.get(wanted)
    if str(reply.get("token_type")).lower() != "bearer":
        raise FetchError("the reply has no token of the type bearer")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise FetchError(f"the reply has no {wanted} that a header can have")
    return token


def _describe(url: str, status: int, reply: Mapping[str, Any]) -> str:
    reasons = [reply[key] for key in ("error", "error_description") if reply.get(key)]
    text = ": ".join(map(_shorten, reasons)) or "without what the standard has in it"
    return f"{without_secrets(url)} replied {status} {text}"


def _shorten(value: object) -> str:
    return make_printable(str(value))[:MAX_SHOWN]


def _number(value: object, default: float) -> float:
    """Seconds that a server names, if they make sense."""
    return float(min(value, MAX_CODE_TTL)) if isinstance(value, int | float) and value >= 1 else default
