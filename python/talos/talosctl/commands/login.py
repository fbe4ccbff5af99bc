"""``talosctl login``."""

import asyncio
import sys
from dataclasses import replace

from cryptography import x509

from talos.client.failure import roles_of
from talos.client.target import Target
from talos.config.talosconfig.places import find_talosconfig, open_talosconfig, save
from talos.system.errors import UserError
from talos.system.files import read_file
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.login import Issued, exchange_token, fetch_settings, get_token, make_login_target
from talos.talosctl.client.refresh_tokens import RefreshTokens
from talos.talosctl.client.select import select_target
from talos.talosctl.output import console

MAX_TOKEN = 64 * 1024  # bytes of a file; nodes take less


def run_login(invocation: Invocation) -> int:
    """Get a certificate for a token of the issuer, and write it into the context."""
    flags = invocation.flags
    target = make_login_target(select_target(flags))
    if source := flags.text("token-file"):
        token = _read_token(source)
    else:
        tokens = RefreshTokens(
            talosconfig=find_talosconfig(flags.text("talosconfig")), context=target.context
        )
        token = get_token(asyncio.run(fetch_settings(target)), tokens, console.note)
    issued = asyncio.run(exchange_token(target, token))
    config, path = open_talosconfig(flags.text("talosconfig"))
    context = config.get(target.context)
    changed = replace(context, ca=issued.ca or context.ca, crt=issued.crt, key=issued.key)
    save(config.with_context(target.context, changed), path)
    console.note(_describe(issued, target))
    return 0


def _read_token(source: str) -> str:
    """The token in a file; ``-`` is the standard input. UserError."""
    text = sys.stdin.buffer.read(MAX_TOKEN + 1) if source == "-" else read_file(source)
    token = text.decode("ascii", "replace").strip()
    if not token or len(token) > MAX_TOKEN or not token.isascii() or len(token.split()) != 1:
        raise UserError(
            "it holds no token", where=source, hint="one text in three parts with dots, nothing else"
        )
    return token


def _describe(issued: Issued, target: Target) -> str:
    certificate = x509.load_pem_x509_certificate(issued.crt)
    until = certificate.not_valid_after_utc.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    roles = ", ".join(roles_of(replace(target, crt=issued.crt)))
    return f'context "{target.context}" has {roles} until {until}'


COMMAND = Command(
    name="login",
    summary="Get a certificate for a token of your identity provider",
    details="Shows where to log in, waits until you have, and trades the token for a client certificate "
    "of a short life, which it writes into the context. The same again renews it, without you when the "
    "provider gave a refresh token, which is in a file beside the talosconfig. The nodes' config decides "
    "who gets which roles (OIDCLoginConfig).",
    flags=(
        *CLIENT_FLAGS,
        Flag(name="token-file", help="the file of a token to trade instead; - is the standard input"),
    ),
    run=run_login,
)
