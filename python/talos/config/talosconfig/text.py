"""The text of the client's file.

    parse_talosconfig(text, source=path) -> TalosConfig
    format_talosconfig(config) -> text

Every talosctl command reads the file, so YAML is imported only for a form that talosctl does not write.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import replace

from talos.config.talosconfig.model import Context, TalosConfig

# The form in which talosctl writes the file. A regular expression reads it in a tenth of the time that
# importing the YAML reader takes. Names and values exclude every scalar that YAML may resolve to another
# type than a string; the YAML reader takes a file that differs in any way.
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


def parse_talosconfig(text: str | bytes, *, source: str = "talosconfig") -> TalosConfig:
    """Read the file's text, strictly.

    ConfigError: with every mistake in it.
    """
    config = _parse_written(text)
    if config is None:
        from talos.config.talosconfig.yaml import parse_yaml

        config = parse_yaml(text, source)
    return replace(config, source=source)


def format_talosconfig(config: TalosConfig) -> str:
    """Write the file's text."""
    from talos.config.talosconfig.yaml import format_yaml

    return format_yaml(config)


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
