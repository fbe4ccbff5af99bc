"""The web server that machines load the system and their configs from."""

import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from talos.provision.pxe.dnsmasq import SCRIPT
from talos.provision.pxe.script import (
    ASSETS,
    CONFIG,
    IDENTITY,
    START,
    TOKEN,
    make_config_url,
    make_first_script,
    make_script,
)
from talos.provision.pxe.tokens import Tokens
from talos.system.errors import UserError
from talos.system.logging import make_printable
from talos.system.net.http_server import BoundedHandler, BoundedServer

FALLBACK = "default"
SUFFIX = ".yaml"
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_MAC = re.compile(r"(?:[0-9a-f]{2}[:-]?){5}[0-9a-f]{2}")
_HOST = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
"""The header of a request with the server's name or address, and its port."""
_BLOCK = 1 << 20
_MEGABYTE = 1_000_000
_SHOWN = 300
"""Characters of a line that is shown, and kept for the page: a request may name a path of thousands."""
_SHOWN_SIZE = 100_000
"""Bytes from which on a line shows the size in megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What is offered. ``configs`` is None when machines get none.

    ``script`` is what iPXE runs, empty for a folder that it does not start. With ``base``, this server's URL,
    it is one that leads to the machine's own, with ``arguments`` for its kernel, and only the machine that
    has run that is given a config.
    """

    assets: Path
    script: str = ""
    configs: Path | None = None
    base: str = ""
    arguments: Sequence[str] = ()


def find_mac(query: Mapping[str, str]) -> str:
    """The digits of the machine's MAC address; empty when it names none."""
    value = query.get("mac", "").strip().lower()
    return re.sub(r"[:-]", "", value) if _MAC.fullmatch(value) else ""


def make_names(query: Mapping[str, str]) -> list[str]:
    """The names under which a machine's config is looked for, without suffix, the most special first."""
    names: list[str] = []
    for key in IDENTITY:
        value = query.get(key, "").strip()
        if key == "mac" and (digits := find_mac(query)):
            pairs = [digits[start : start + 2] for start in range(0, len(digits), 2)]
            names += [":".join(pairs), "-".join(pairs), digits]
        elif key != "mac" and _SAFE.fullmatch(value):
            names += dict.fromkeys([value, value.lower()])
    return [*names, FALLBACK]


def find_config(configs: Path, query: Mapping[str, str]) -> Path | None:
    """The config of the machine that requests it; None when there is none, not even for all."""
    for name in make_names(query):
        path = configs / f"{name}{SUFFIX}"
        if _is_file(path):
            return path
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as of a name that is longer than a file's can be
        return False


def _parse_query(text: str) -> Mapping[str, str]:
    return {key: values[-1] for key, values in parse_qs(text).items()}


def find_asset(assets: Path, path: str) -> Path | None:
    """The file below ``assets`` that a decoded path of an address names; None when there is none."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        return None
    found = assets.joinpath(*parts)
    return found if _is_file(found) else None


def make_server(site: Site, address: str, port: int, show: Callable[[str], None]) -> BoundedServer:
    """The server, bound and not yet running; ``show`` gets a line per request."""

    class Handler(_Handler):
        pass

    Handler.site, Handler.show, Handler.tokens = site, staticmethod(show), Tokens()
    try:
        server = _Server((address, port), Handler)
    except OSError as error:
        raise UserError(
            f"can't listen on {address}:{port}: {error.strerror}", where="--port", hint="choose another port"
        ) from None
    return server


class _Server(BoundedServer):
    max_per_client = 64
    """One machine, or as many as load at a time behind an address that they share: others have the rest."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report nothing of connections that machines have closed: firmware resets them when it is done."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BoundedHandler):
    site: Site
    show: Callable[[str], None]
    tokens: Tokens
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:  # noqa: N802 - its name in http.server
        """Answer with content."""
        self._answer(with_content=True)

    def do_HEAD(self) -> None:  # noqa: N802 - its name in http.server
        """Answer without content."""
        self._answer(with_content=False)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the answers show it."""

    def _answer(self, *, with_content: bool) -> None:
        try:
            url = urlsplit(self.path)
        except ValueError:  # such as of an address without its bracket
            self._refuse(f"{self.path} is no path", with_content=with_content)
            return
        top, _, rest = unquote(url.path).lstrip("/").partition("/")
        if top == SCRIPT and not rest and (self.site.base or self.site.script):
            script = make_first_script(self._find_base()) if self.site.base else self.site.script
            self._send_text(HTTPStatus.OK, script, with_content=with_content)
            self._report("runs the script")
        elif top == START and not rest and self.site.base:
            self._answer_start(_parse_query(url.query), with_content=with_content)
        elif top == CONFIG and not rest:
            self._answer_config(_parse_query(url.query), with_content=with_content)
        elif top == ASSETS and (found := find_asset(self.site.assets, rest)):
            self._send_file(found, "application/octet-stream", with_content=with_content)
        else:
            self._refuse(f"there is no {url.path}", with_content=with_content)

    def _find_base(self) -> str:
        """This server's URL by the address that was called: where a port is forwarded it is not its own."""
        host = self.headers.get("Host", "")
        return f"http://{host}" if _HOST.fullmatch(host) else self.site.base

    def _answer_start(self, query: Mapping[str, str], *, with_content: bool) -> None:
        """The machine's own script: with the place of its config, unless that was given already."""
        mac = find_mac(query)
        token = self.tokens.issue(mac) if mac else ""
        config_url = make_config_url(self._find_base(), query, token) if token else ""
        reason = "has had its config, and waits in maintenance mode" if mac else "names no MAC address"
        self._send_text(
            HTTPStatus.OK, make_script(self.site.arguments, config_url), with_content=with_content
        )
        self._report("runs its own script" if token else f"{query.get('mac', '')} {reason}".strip())

    def _answer_config(self, query: Mapping[str, str], *, with_content: bool) -> None:
        known = " ".join(f"{key}={value}" for key, value in query.items() if key in IDENTITY)
        found = find_config(self.site.configs, query) if self.site.configs else None
        mac, token = find_mac(query), query.get(TOKEN, "")
        if found and self.site.base and not (with_content and self.tokens.take(mac, token)):
            self._refuse(
                f"no config for {known or 'this machine'}: not by its token", with_content=with_content
            )
        elif found:
            self._report(f"is {known or 'unknown'}")
            if not self._send_file(found, "application/yaml", with_content=with_content) and self.site.base:
                self.tokens.give_back(mac, token)
        else:
            names = " or ".join(f"{name}{SUFFIX}" for name in make_names(query))
            self._refuse(f"no config for {known or 'this machine'}: no {names}", with_content=with_content)

    def _send_file(self, path: Path, kind: str, *, with_content: bool) -> bool:
        """Send a file; whether the machine took it."""
        with path.open("rb") as file:
            size = path.stat().st_size
            self._send_head(HTTPStatus.OK, kind, size)
            if not with_content:
                return True
            try:
                shutil.copyfileobj(file, self.wfile, _BLOCK)
            except OSError as error:
                self._report(f"closed the connection while it loaded {path.name}: {error.strerror}")
                self.close_connection = True
                return False
        shown = f", {size / _MEGABYTE:.1f} MB" if size >= _SHOWN_SIZE else ""
        self._report(f"has loaded {path.name}{shown}")
        return True

    def _refuse(self, reason: str, *, with_content: bool) -> None:
        self._report(reason)
        self._send_text(HTTPStatus.NOT_FOUND, f"{reason}\n", with_content=with_content)

    def _send_text(self, status: HTTPStatus, text: str, *, with_content: bool) -> None:
        content = text.encode()
        self._send_head(status, "text/plain; charset=utf-8", len(content))
        if with_content:
            self.wfile.write(content)

    def _send_head(self, status: HTTPStatus, kind: str, size: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def _report(self, what: str) -> None:
        self.show(f"{self.client_address[0]}: {make_printable(what[:_SHOWN])}")
