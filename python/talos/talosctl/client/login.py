"""Trading a token for a certificate at a control plane node, and the way to the token."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from google.protobuf.message import Message

from talos.api.login.login_pb2 import DescribeReply, DescribeRequest, ExchangeReply, ExchangeRequest
from talos.api.rpc import Code, RpcError
from talos.client.failure import describe
from talos.client.session import open_session
from talos.client.target import Target
from talos.pki.csr import make_csr
from talos.pki.keys import KeyType, key_to_pem, make_key
from talos.process.fetch import FetchBounds, FetchError, NotThereError, fetch, post_form
from talos.process.issuer import fetch_metadata
from talos.system.errors import UserError
from talos.system.parsed import parse_object
from talos.talosctl.cli.exit import CommandError
from talos.talosctl.client.failure import find_exit
from talos.talosctl.client.refresh_tokens import RefreshTokens

TRUSTD_PORT = 50001
SERVICE = "/talos.login.LoginService/"
BOUNDS = FetchBounds(max_bytes=256 * 1024, timeout=20.0, silence=10.0)
WANTED = "id_token"
MIN_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A certificate with its key, and the authorities of the nodes' API, PEM."""

    ca: bytes
    crt: bytes
    key: bytes


def make_login_target(target: Target) -> Target:
    """The same nodes' port for those who have no certificate yet. UserError."""
    if not target.ca:
        raise UserError(
            "it has no `ca`, by which the nodes are recognized",
            where=f'context "{target.context}"',
            hint="`talosctl config add <context> --ca <file>` with the cluster's CA",
        )
    endpoints = tuple(replace(endpoint, port=TRUSTD_PORT) for endpoint in target.endpoints)
    return replace(target, endpoints=endpoints, crt=b"", key=b"", basic_auth="")


async def fetch_settings(target: Target) -> DescribeReply:
    """Where the nodes want a token from."""
    return await _call(target, "Describe", DescribeRequest(), DescribeReply)


async def exchange_token(target: Target, token: str) -> Issued:
    """A new key, and the certificate that a token is worth."""
    key = make_key(KeyType.ED25519)
    reply = await _call(target, "Exchange", ExchangeRequest(token=token, csr=make_csr(key)), ExchangeReply)
    return Issued(ca=reply.ca, crt=reply.crt, key=key_to_pem(key))


async def _call[R: Message](target: Target, method: str, request: Message, reply: type[R]) -> R:
    # A session each: the nodes end a connection of this port after its answer.
    async with open_session(target) as session:
        try:
            return await session.unary("", SERVICE + method, request, reply, timeout=30.0)
        except RpcError as error:
            text = describe(error, target)
            if error.code is Code.UNIMPLEMENTED:
                text = "the nodes have no OIDCLoginConfig in their config: docs/oidc.md"
            raise CommandError(text, code=find_exit(error)) from None


def get_token(settings: DescribeReply, tokens: RefreshTokens, inform: Callable[[str], None]) -> str:
    """A token of identity, by the refresh token that is kept; else a person agrees in a browser, anywhere.

    It blocks. UserError.
    """
    try:
        device_url, token_url = _find_endpoints(settings)
        return _renew(settings, tokens, token_url) or _authorize(
            settings, tokens, inform, device_url, token_url
        )
    except (FetchError, NotThereError) as error:
        hint = "or give a token of its own with --token-file"
        raise UserError(str(error), where=f"issuer {settings.issuer}", hint=hint) from None


def _authorize(
    settings: DescribeReply,
    tokens: RefreshTokens,
    inform: Callable[[str], None],
    device_url: str,
    token_url: str,
) -> str:
    """A token of identity by the device flow. FetchError, UserError."""
    import trio

    from talos.process.device_flow import Client, DeviceFlow, find_token, post_in_thread

    client = Client(
        id=settings.client_id,
        secret="",
        scope=" ".join(("openid", *settings.scopes)),
        audience="",
        device_url=device_url,
        token_url=token_url,
    )
    post = partial(post_in_thread, authorities=settings.ca)
    flow = DeviceFlow(client=client, variables={}, inform=inform, wanted=WANTED, post=post)
    reply = trio.run(flow.get_reply)
    token = find_token(reply, WANTED)
    tokens.keep(settings, reply.get("refresh_token"))
    return token


def _renew(settings: DescribeReply, tokens: RefreshTokens, url: str) -> str:
    """A token of identity without a person, empty when the issuer gives none. FetchError, UserError."""
    from talos.process.device_flow import find_token

    kept = tokens.find(settings)
    if not kept:
        return ""
    fields = {"grant_type": "refresh_token", "refresh_token": kept, "client_id": settings.client_id}
    status, body = post_form(url, fields, {}, authorities=settings.ca)
    reply = parse_object(body)
    if status == 200:
        # Many issuers give another one each time, and refuse the one before.
        tokens.keep(settings, reply.get("refresh_token") or kept)
        return find_token(reply, WANTED) if WANTED in reply else ""
    if status >= MIN_SERVER_ERROR:
        raise FetchError(f"{url} replied {status}")
    if reply.get("error") == "invalid_grant":  # expired, revoked, or used before
        tokens.forget()
    return ""


def _find_endpoints(settings: DescribeReply) -> tuple[str, str]:
    """Where a code and then a token is had. FetchError, NotThereError."""
    metadata = _get_metadata(settings)
    device, token = (str(metadata.get(f"{name}_endpoint", "")) for name in ("device_authorization", "token"))
    if not urlsplit(device).scheme == urlsplit(token).scheme == "https":
        raise FetchError("it has no device flow (RFC 8628) by https")
    return device, token


def _get_metadata(settings: DescribeReply) -> dict[str, Any]:
    if urlsplit(settings.issuer).scheme != "https":
        raise FetchError("it is no URL of https")
    return fetch_metadata(
        settings.issuer, lambda url: fetch(url, bounds=BOUNDS, authorities=settings.ca).data
    )
