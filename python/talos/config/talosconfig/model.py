"""The client's configuration: contexts with endpoints, nodes and credentials.

    config.current, config.get(name) -> Context
    config.with_context(name, context), .without_context(name), .selecting(name) -> TalosConfig
    config.merge(other) -> (TalosConfig, renames)

Each operation returns a new config.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from talos.system.errors import UserError

HOW_TO_BEGIN = (
    "`talosctl config merge <file>` adds one, --talosconfig names another file, "
    "`talosctl cluster create` creates a cluster"
)
"""The remedy where there is no context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicAuth:
    """User name and password."""

    username: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideroAuth:
    """Keys of an identity."""

    identity: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """How the client authenticates beside its certificate."""

    basic: BasicAuth | None = None
    siderov1: SideroAuth | None = None


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
    source: str = field(default="talosconfig", compare=False)
    """The file, for errors."""

    @property
    def current(self) -> Context:
        """The current context.

        UserError: when none is set or it is not defined.
        """
        return self.get(self.context)

    def get(self, name: str) -> Context:
        """A context by name.

        UserError: when it is not defined.
        """
        if name in self.contexts:
            return self.contexts[name]
        message = f'context "{name}" is not defined' if name else "no context is set"
        known = ", ".join(sorted(self.contexts))
        hint = f"`talosctl config context <name>` selects one: {known}" if known else HOW_TO_BEGIN
        raise UserError(message, where=self.source, hint=hint)

    def with_context(self, name: str, context: Context) -> "TalosConfig":
        """Add or replace a context."""
        return replace(self, contexts={**self.contexts, name: context})

    def without_context(self, name: str) -> "TalosConfig":
        """Remove a context other than the current one.

        UserError: when it is the current one or is not defined.
        """
        self.get(name)
        if name == self.context:
            hint = "select another first: talosctl config context"
            raise UserError(f'context "{name}" is the current one', where=self.source, hint=hint)
        return replace(self, contexts={key: value for key, value in self.contexts.items() if key != name})

    def selecting(self, name: str) -> "TalosConfig":
        """Make another context the current one.

        UserError: when it is not defined.
        """
        self.get(name)
        return replace(self, context=name)

    def merge(self, other: "TalosConfig") -> "tuple[TalosConfig, dict[str, str]]":
        """Add another file's contexts and make its current one the current one.

        A name that is in use becomes the first free one of ``name-1``, ``name-2``, ...

        The merged config, and each renamed context with its new name.
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
        return replace(self, context=current, contexts=contexts), renames
