"""talosctl against one machine, through the port on loopback that leads to its API."""

import json
import os
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from driver.failure import ConditionNotMetError
from driver.process import Result, run

type Document = dict[str, object]


def parse_documents(text: str) -> list[Document]:
    """JSON documents one after the other, as ``talosctl get -o json`` prints them."""
    decoder, found, position = json.JSONDecoder(), list[Document](), 0
    text = text.strip()
    while position < len(text):
        value, position = decoder.raw_decode(text, position)
        found.append(cast("Document", value))
        while position < len(text) and text[position].isspace():
            position += 1
    return found


def at(document: Document, path: str) -> object:
    """A value of a document by a path such as ``spec.ready``; None when there is none."""
    value: object = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return value  # pyright: ignore[reportUnknownVariableType]


def check_tls(port: int, seconds: float = 3) -> None:
    """Assert that something speaks TLS behind a port: much cheaper than a call with talosctl."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection(("127.0.0.1", port), seconds) as plain,
            context.wrap_socket(plain, server_hostname="node"),
        ):
            pass
    except OSError as error:
        raise ConditionNotMetError(f"no answer at the API's port: {error}") from error


class Client:
    """talosctl with the machine's address. ``talosconfig`` is set once the machine belongs to a cluster."""

    def __init__(
        self, program: Path, port: int, home: Path, *, endpoints: str = "", nodes: str = "127.0.0.1"
    ) -> None:
        """``home`` keeps talosctl away from the user's own files.

        ``endpoints`` are several ports instead of the one, ``nodes`` the addresses that are called over them.
        """
        self.program, self.port, self._home = program, port, home
        self._endpoints, self._nodes = endpoints or f"127.0.0.1:{port}", nodes
        self.talosconfig: Path | None = None
        self.calls = 0
        """Commands that were run."""

    def argv(self, arguments: Sequence[str], *, insecure: bool) -> list[str]:
        """The command, as one may paste it."""
        if insecure:
            return [str(self.program), *arguments, "--insecure", "--nodes", self._endpoints]
        where = ["--talosconfig", str(self.talosconfig)] if self.talosconfig else []
        return [
            str(self.program),
            *where,
            *("--endpoints", self._endpoints),
            *("--nodes", self._nodes),
            *arguments,
        ]

    @property
    def environment(self) -> dict[str, str]:
        """What the command gets of the test's environment."""
        return {"HOME": str(self._home), "PATH": os.environ.get("PATH", ""), "NO_COLOR": "1"}

    def run(self, *arguments: str, insecure: bool = False, check: bool = True, seconds: float = 60) -> Result:
        """Run talosctl; with ``check`` a failure shows its whole output."""
        self.calls += 1
        argv = self.argv(arguments, insecure=insecure)
        return run(argv, env=self.environment, check=check, seconds=seconds)

    def get(self, *arguments: str, insecure: bool = False) -> list[Document]:
        """Resources as documents."""
        return parse_documents(self.run("get", *arguments, "-o", "json", insecure=insecure).stdout)
