"""The client's file: contexts with endpoints, nodes and credentials.

    locations(environ) -> list[Location]         where it is looked for, in order
    open_talosconfig(path | None, environ) -> (TalosConfig, Path)
    TalosConfig.parse(text, source) / .dump()
    save(config, path)                           file 0600, directory 0700
    config.merge(other) -> (TalosConfig, renames)
    config.with_context(...), .without_context(...), .selecting(...)

This module imports nothing heavy: every ``talosctl`` command reads the file.
"""

import base64
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from talos.config.problem import ConfigError
from talos.config.read.reader import SectionReader
from talos.config.read.tree import parse_documents
from talos.config.schema import Section, setting
from talos.config.write.encode import encode
from talos.system.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicAuth(Section):
    """User name and password."""

    username: str | None = setting("user name")
    password: str | None = setting("password", secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideroAuth(Section):
    """Keys of an identity."""

    identity: str | None = setting("who it is")


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth(Section):
    """How the client authenticates beside its certificate."""

    basic: BasicAuth | None = setting("user name and password")
    siderov1: SideroAuth | None = setting("keys of an identity")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ContextSection(Section):
    """A context as the file has it."""

    target: str | None = setting("former way to name one endpoint")
    endpoints: tuple[str, ...] | None = setting("nodes to talk to")
    nodes: tuple[str, ...] | None = setting("nodes that commands are for")
    ca: str | None = setting("authority of the nodes' API, base64 of PEM")
    crt: str | None = setting("client certificate, base64 of PEM")
    key: str | None = setting("its key, base64 of PEM", secret=True)
    auth: Auth | None = setting("how the client authenticates beside its certificate")
    proxy_url: str | None = setting("proxy to connect through", key="proxy-url")
    cluster: str | None = setting("name of the cluster behind a proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileSection(Section):
    """The whole file."""

    context: str | None = setting("the current context")
    contexts: Mapping[str, _ContextSection] | None = setting("contexts by name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where a cluster is and how to authenticate. Certificates and key are PEM."""

    endpoints: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    ca: bytes = b""
    crt: bytes = b""
    key: bytes = field(default=b"", repr=False)
    auth: Auth | None = None
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
        nodes = parse_documents(text, source=source)
        if not nodes:
            return cls()
        reader = SectionReader(document="", source=source)
        read = cast("_FileSection | None", reader.read(_FileSection, nodes[0]))
        if len(nodes) > 1:
            reader.note("expected one document", "", nodes[1].mark)
        contexts: dict[str, Context] = {}
        for name, section in ((read.contexts or {}) if read else {}).items():
            contexts[name] = _read_context(section, name, reader)
        if read is None or reader.problems:
            raise ConfigError(reader.problems)
        return cls(context=read.context or "", contexts=contexts)

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
        contexts = {name: _context_to_plain(context) for name, context in sorted(self.contexts.items())}
        return encode({"context": self.context, "contexts": contexts})


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


def _read_context(section: _ContextSection, name: str, reader: SectionReader) -> Context:
    endpoints = section.endpoints or ()
    return Context(
        endpoints=(*endpoints, section.target) if section.target else endpoints,
        nodes=section.nodes or (),
        ca=_decode(section.ca, f"contexts[{name}].ca", reader),
        crt=_decode(section.crt, f"contexts[{name}].crt", reader),
        key=_decode(section.key, f"contexts[{name}].key", reader),
        auth=section.auth,
        proxy_url=section.proxy_url or "",
        cluster=section.cluster or "",
    )


def _decode(text: str | None, path: str, reader: SectionReader) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except ValueError:
        reader.note(
            "expected base64", path, reader.marks.get(path), hint="the whole PEM block, encoded on one line"
        )
        return b""


def _context_to_plain(context: Context) -> dict[str, Any]:
    result: dict[str, Any] = {"endpoints": list(context.endpoints)}
    if context.nodes:
        result["nodes"] = list(context.nodes)
    for key, value in (("ca", context.ca), ("crt", context.crt), ("key", context.key)):
        if value:
            result[key] = base64.b64encode(value).decode()
    if context.auth is not None:
        result["auth"] = _auth_to_plain(context.auth)
    if context.cluster:
        result["cluster"] = context.cluster
    if context.proxy_url:
        result["proxy-url"] = context.proxy_url
    return result


def _auth_to_plain(auth: Auth) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if auth.basic is not None:
        result["basic"] = {"username": auth.basic.username or "", "password": auth.basic.password or ""}
    if auth.siderov1 is not None:
        result["siderov1"] = {"identity": auth.siderov1.identity or ""}
    return result
