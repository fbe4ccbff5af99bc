"""The talosconfig as YAML: read strictly, with the place of every mistake, and written."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from talos.config.problem import ConfigError
from talos.config.read.reader import SectionReader
from talos.config.read.tree import parse_documents
from talos.config.schema import Section, setting
from talos.config.talosconfig.model import Auth, BasicAuth, Context, SideroAuth, TalosConfig
from talos.resource.yaml.text import to_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class _BasicAuthSection(Section):
    """User name and password."""

    username: str | None = setting("user name")
    password: str | None = setting("password", secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SideroAuthSection(Section):
    """Keys of an identity."""

    identity: str | None = setting("e-mail address of the identity")


@dataclass(frozen=True, slots=True, kw_only=True)
class _AuthSection(Section):
    """How the client authenticates beside its certificate."""

    basic: _BasicAuthSection | None = setting("user name and password")
    siderov1: _SideroAuthSection | None = setting("keys of an identity")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ContextSection(Section):
    """A context as the file has it."""

    target: str | None = setting("one endpoint, deprecated")
    endpoints: tuple[str, ...] | None = setting("nodes to connect to")
    nodes: tuple[str, ...] | None = setting("nodes that commands address")
    ca: str | None = setting("authority of the nodes' API, base64 of PEM")
    crt: str | None = setting("client certificate, base64 of PEM")
    key: str | None = setting("its key, base64 of PEM", secret=True)
    auth: _AuthSection | None = setting("how the client authenticates beside its certificate")
    proxy_url: str | None = setting("proxy to connect through", key="proxy-url")
    cluster: str | None = setting("name of the cluster behind a proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileSection(Section):
    """The whole file."""

    context: str | None = setting("the current context")
    contexts: Mapping[str, _ContextSection] | None = setting("contexts by name")


def parse_yaml(text: str | bytes, source: str) -> TalosConfig:
    """Read the file, strictly.

    ConfigError: with every mistake in it.
    """
    nodes = parse_documents(text, source=source)
    if not nodes:
        return TalosConfig()
    reader = SectionReader(document="", source=source, lenient=True)
    read = cast("_FileSection | None", reader.read(_FileSection, nodes[0]))
    if len(nodes) > 1:
        reader.record("expected one document", "", nodes[1].mark)
    contexts: dict[str, Context] = {}
    for name, section in ((read.contexts or {}) if read else {}).items():
        contexts[name] = _read_context(section, name, reader)
    if read is None or reader.problems:
        raise ConfigError(reader.problems)
    return TalosConfig(context=read.context or "", contexts=contexts)


def _read_context(section: _ContextSection, name: str, reader: SectionReader) -> Context:
    endpoints = section.endpoints or ()
    return Context(
        endpoints=(*endpoints, section.target) if section.target else endpoints,
        nodes=section.nodes or (),
        ca=_decode(section.ca, f"contexts[{name}].ca", reader),
        crt=_decode(section.crt, f"contexts[{name}].crt", reader),
        key=_decode(section.key, f"contexts[{name}].key", reader),
        auth=_read_auth(section.auth),
        proxy_url=section.proxy_url or "",
        cluster=section.cluster or "",
    )


def _read_auth(section: _AuthSection | None) -> Auth | None:
    if section is None:
        return None
    basic, siderov1 = section.basic, section.siderov1
    return Auth(
        basic=BasicAuth(username=basic.username or "", password=basic.password or "") if basic else None,
        siderov1=SideroAuth(identity=siderov1.identity or "") if siderov1 else None,
    )


def _decode(text: str | None, path: str, reader: SectionReader) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except ValueError:
        reader.record(
            "expected base64", path, reader.marks.get(path), hint="the whole PEM block, encoded on one line"
        )
        return b""


def format_yaml(config: TalosConfig) -> str:
    """Write the file's text."""
    contexts = {name: _context_to_plain(context) for name, context in sorted(config.contexts.items())}
    return to_yaml({"context": config.context, "contexts": contexts})


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
        result["basic"] = {"username": auth.basic.username, "password": auth.basic.password}
    if auth.siderov1 is not None:
        result["siderov1"] = {"identity": auth.siderov1.identity}
    return result
