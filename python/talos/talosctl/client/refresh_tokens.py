"""Tokens that renew a login without a person: in a file beside the talosconfig, for its owner only.

A token goes only to the issuer that gave it: the nodes name the issuer at each login, and another one,
or the same with other CAs, does not get it.
"""

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeGuard

from talos.api.login.login_pb2 import DescribeReply
from talos.system.errors import UserError
from talos.system.files import read_file, replace_durably
from talos.system.parsed import as_object, parse_object

SUFFIX = ".login"
MAX_FILE = 4 << 20
"""Bytes."""
MAX_TOKEN = 16384
"""Characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshTokens:
    """The token of one context of a talosconfig."""

    talosconfig: Path
    context: str

    @property
    def path(self) -> Path:
        """The file of all contexts' tokens."""
        target = self.talosconfig.resolve()
        return target.with_name(target.name + SUFFIX)

    def find(self, settings: DescribeReply) -> str:
        """The token that this issuer gave, empty for none."""
        found = as_object(self._read().get(self.context))
        token = found.get("refresh_token")
        is_its = {key: found.get(key) for key in ("issuer", "client_id", "ca")} == _make_key(settings)
        return token if is_its and is_token(token) else ""

    def keep(self, settings: DescribeReply, token: object) -> None:
        """Write what the issuer gave; when it gave none, what was there is of no use either. UserError."""
        if is_token(token):
            self._write({**_make_key(settings), "refresh_token": token})
        else:
            self.forget()

    def forget(self) -> None:
        """Remove the token; UserError."""
        if self.context in self._read():
            self._write(None)

    def _read(self) -> dict[str, Any]:
        try:
            return parse_object(read_file(self.path, MAX_FILE))
        except UserError:
            return {}  # a person is prompted, and it is written anew

    def _write(self, entry: dict[str, Any] | None) -> None:
        entries = {**self._read(), self.context: entry}
        kept = {context: one for context, one in entries.items() if one is not None}
        try:
            replace_durably(self.path, [json.dumps(kept, indent=2).encode(), b"\n"], mode=0o600)
        except OSError as error:
            raise UserError(f"can't be written: {error.strerror}", where=str(self.path)) from None


def is_token(value: object) -> TypeGuard[str]:
    """Whether it is a text that can be one."""
    return isinstance(value, str) and 0 < len(value) <= MAX_TOKEN and value.isascii() and value.isprintable()


def _make_key(settings: DescribeReply) -> dict[str, str]:
    """Who gets the token: the issuer, the client, and the CAs by which the issuer is recognized."""
    ca = sha256(settings.ca.encode()).hexdigest()
    return {"issuer": settings.issuer, "client_id": settings.client_id, "ca": ca}
