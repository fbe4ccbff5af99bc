"""The client's file: contexts with endpoints, nodes and credentials.

    locations(environ) -> list[Location]         where it is looked for, in order
    open_talosconfig(path | None, environ) -> (TalosConfig, Path)
    TalosConfig.parse(text, source) / .dump()
    save(config, path)                           file 0600, directory 0700
    config.merge(other) -> (TalosConfig, renames)
    config.with_context(...), .without_context(...), .selecting(...)

This module imports nothing heavy: every ``talosctl`` command reads the file. talosconfig_file.py knows YAML.
"""

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from talos.system.errors import UserError

if TYPE_CHECKING:
    from talos.config.talosconfig_file import Auth

# The form in which talosctl writes the file. A regular expression reads it in a tenth of the time that
# importing the YAML reader takes. Names and texts leave out all that YAML may take for something else
# than a text; a file that differs in any way is left to the YAML reader.
_NAME = r"(?!(?i:true|false|yes|no|on|off|null|y|n)(?:$|:))[A-Za-z][A-Za-z0-9_@.-]*"
_ADDRESS = rf"(?:{_NAME}|[0-9]+(?:\.[0-9]+){{3}})(?::[0-9]+)?"
_BASE64 = r"[A-Za-z][A-Za-z0-9+/]{7,}={0,2}"
_WRITTEN = re.compile(
    rf"context: (?P<context>{_NAME})\ncontexts:\n"
    rf"(?P<contexts>(?:    {_NAME}:\n"
    rf"(?:        (?:endpoints|nodes): \[\]\n"
    rf"|        (?:endpoints|nodes):\n(?:            - {_ADDRESS}\n)+"
    rf"|        (?:ca|crt|key): {_BASE64}\n|        cluster: {_NAME}\n)+)+)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where a cluster is and how to authenticate. Certificates and key are PEM."""

    endpoints: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    ca: bytes = b""
    crt: bytes = b""
    key: bytes = field(default=b"", repr=False)
    auth: "Auth | None" = None
    proxy_url: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TalosConfig:
    """All contexts and which of them is current."""

    context: str = ""
    contexts: Mapping[str, Context] = field(default_factory=dict[str, Context])

    @classmethod
    def parse(cls, text: str | bytes, *, source: str = "talosconfig") -> "TalosConfig":
        """Read the file, strictly.

        Raises:
            ConfigError: with everything that is wrong with it.
        """
        config = _parse_written(text)
        if config is None:
            from talos.config.talosconfig_file import read_file

            config = read_file(text, source)
        return config

    @property
    def current(self) -> Context:
        """The current context.

        Raises:
            UserError: when there is none.
        """
        return self.get(self.context)

    def get(self, name: str) -> Context:
        """A context by name.

        Raises:
            UserError: when there is none of this name.
        """
        if name in self.contexts:
            return self.contexts[name]
        known = ", ".join(sorted(self.contexts)) or "there is none yet"
        if not name:
            raise UserError("no context is set", where="talosconfig", hint=f"contexts: {known}")
        raise UserError(f'context "{name}" is not defined', where="talosconfig", hint=f"contexts: {known}")

    def with_context(self, name: str, context: Context) -> "TalosConfig":
        """The same with a context added or replaced."""
        return replace(self, contexts={**self.contexts, name: context})

    def without_context(self, name: str) -> "TalosConfig":
        """The same without a context; the current one can't be removed.

        Raises:
            UserError: when it is the current one or doesn't exist.
        """
        self.get(name)
        if name == self.context:
            hint = "select another first: talosctl config context"
            raise UserError(f'context "{name}" is the current one', where="talosconfig", hint=hint)
        return replace(self, contexts={key: value for key, value in self.contexts.items() if key != name})

    def selecting(self, name: str) -> "TalosConfig":
        """The same with another current context.

        Raises:
            UserError: when there is none of this name.
        """
        self.get(name)
        return replace(self, context=name)

    def merge(self, other: "TalosConfig") -> "tuple[TalosConfig, dict[str, str]]":
        """Take over another file's contexts and its current one; also returns what was renamed.

        A name that is taken gets the first free of ``name-1``, ``name-2``, ...
        """
        contexts, renames, current = dict(self.contexts), dict[str, str](), self.context
        for name, context in other.contexts.items():
            new, number = name, 0
            while new in contexts:
                number += 1
                new = f"{name}-{number}"
            if new != name:
                renames[name] = new
            contexts[new] = context
            if name == other.context:
                current = new
        return TalosConfig(context=current, contexts=contexts), renames

    def dump(self) -> str:
        """The file's text."""
        from talos.config.talosconfig_file import write_file

        return write_file(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A place where the file may be."""

    path: Path
    writable: bool = True


SERVICE_ACCOUNT_PATH = Path("/var/run/secrets/talos.dev/config")
"""Where a pod with access to the node's API finds its file."""


def locations(environ: Mapping[str, str] = os.environ) -> list[Location]:
    """Where the file is looked for, first to last.

    ``$XDG_CONFIG_HOME/talos/config.yaml`` comes first, but only when it exists.
    """
    found: list[Location] = []
    home = Path(environ["HOME"]) if environ.get("HOME") else Path("/")
    xdg = environ.get("XDG_CONFIG_HOME", "")
    if xdg.startswith("/") and (path := Path(xdg, "talos", "config.yaml")).exists():
        found.append(Location(path=path))
    if environ.get("TALOSCONFIG"):
        found.append(Location(path=Path(environ["TALOSCONFIG"])))
    talos_home = environ.get("TALOS_HOME", "")
    folder = Path(talos_home) if talos_home.startswith("/") else home / ".talos"
    found.append(Location(path=folder / "config"))
    found.append(Location(path=SERVICE_ACCOUNT_PATH, writable=False))
    return found


def find_talosconfig(explicit: str = "", environ: Mapping[str, str] = os.environ) -> Path:
    """The file to use: the explicit one, the first that exists, or the first that can be made."""
    if explicit:
        return Path(explicit)
    places = locations(environ)
    existing = next((place.path for place in places if place.path.exists()), None)
    return existing or next(place.path for place in places if place.writable)


def open_talosconfig(explicit: str = "", environ: Mapping[str, str] = os.environ) -> tuple[TalosConfig, Path]:
    """Read the file; one that does not exist is created empty.

    Raises:
        ConfigError: when its content is wrong.
        UserError: when it can't be read or made.
    """
    path = find_talosconfig(explicit, environ)
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        config = TalosConfig()
        save(config, path)
        return config, path
    except OSError as error:
        raise UserError(f"can't be read: {error.strerror}", where=str(path)) from error
    return TalosConfig.parse(text, source=str(path)), path


def save(config: TalosConfig, path: Path) -> None:
    """Write the file whole or not at all, for its owner only.

    Raises:
        UserError: when it can't be written.
    """
    import secrets

    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(config.dump())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"can't be written: {error.strerror}", where=str(path)) from error


def _parse_written(text: str | bytes) -> TalosConfig | None:
    """The config of a file as talosctl writes it, None when it has another form."""
    try:
        match = _WRITTEN.fullmatch(text if isinstance(text, str) else text.decode("ascii"))
    except UnicodeDecodeError:
        return None
    if match is None:
        return None
    contexts: dict[str, dict[str, str | list[str]]] = {}
    fields: dict[str, str | list[str]] = {}
    items: list[str] = []
    for line in match["contexts"].splitlines():
        key, _, value = line.strip().partition(":")
        if line.startswith("            - "):
            items.append(line[14:])
            continue
        known = fields if line.startswith("        ") else contexts
        if key in known:
            return None
        if known is contexts:
            fields = contexts[key] = {}
        elif value and value != " []":
            fields[key] = value[1:]
        else:
            fields[key] = items = []
    try:
        return TalosConfig(
            context=match["context"], contexts={name: _make_context(row) for name, row in contexts.items()}
        )
    except ValueError:
        return None


def _make_context(fields: Mapping[str, str | list[str]]) -> Context:
    def pem(key: str) -> bytes:
        return base64.b64decode(str(fields.get(key, "")), validate=True)

    return Context(
        endpoints=tuple(fields.get("endpoints", ())),
        nodes=tuple(fields.get("nodes", ())),
        ca=pem("ca"),
        crt=pem("crt"),
        key=pem("key"),
        cluster=str(fields.get("cluster", "")),
    )
