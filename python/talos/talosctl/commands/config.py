"""``talosctl config``: the client's own configuration."""

import fnmatch
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from talos.client.endpoint import parse_endpoint
from talos.config.talosconfig.model import Context, TalosConfig
from talos.config.talosconfig.places import open_talosconfig, save
from talos.config.talosconfig.text import parse_talosconfig
from talos.system.errors import UserError
from talos.system.files import read_file
from talos.talosctl.cli.command import Command, Invocation, Lazy
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client.flags import CLIENT_FLAGS, OUTPUT
from talos.talosctl.output import console
from talos.talosctl.output.rows import format_rows


def _open(flags: Flags) -> tuple[TalosConfig, Path]:
    return open_talosconfig(flags.text("talosconfig"))


def _change(flags: Flags, **changes: object) -> int:
    """Change the context the flags name, or the current one."""
    config, path = _open(flags)
    name = flags.text("context") or config.context
    save(config.with_context(name, replace(config.get(name), **changes)), path)  # pyright: ignore[reportArgumentType] - the callers below name fields
    return 0


def run_add(invocation: Invocation) -> int:
    """Add a context from PEM files, or replace the one of that name."""
    flags = invocation.flags
    config, path = _open(flags)
    if bool(flags.text("crt")) != bool(flags.text("key")):
        raise UserError("a client certificate and its key belong together", where="--crt, --key")
    files = {key: read_file(file) if (file := flags.text(key)) else b"" for key in ("ca", "crt", "key")}
    context = Context(ca=files["ca"], crt=files["crt"], key=files["key"])
    save(config.with_context(invocation.args[0], context), path)
    return 0


def run_context(invocation: Invocation) -> int:
    """Make a context the current one."""
    config, path = _open(invocation.flags)
    save(config.selecting(invocation.args[0]), path)
    return 0


def run_contexts(invocation: Invocation) -> int:
    """List the contexts, the current one marked."""
    config, _ = _open(invocation.flags)
    current = invocation.flags.text("context") or config.context
    rows: list[tuple[str, ...]] = []
    for name, context in sorted(config.contexts.items()):
        mark = "*" if name == current else ""
        rows.append((mark, name, ",".join(context.endpoints), ",".join(context.nodes)))
    header = ("CURRENT", "NAME", "ENDPOINTS", "NODES")
    console.write(format_rows(invocation.flags.text("output"), header, rows))
    return 0


def run_endpoint(invocation: Invocation) -> int:
    """Set the endpoints of the current context."""
    for text in invocation.args:
        parse_endpoint(text)
    return _change(invocation.flags, endpoints=invocation.args)


def run_node(invocation: Invocation) -> int:
    """Set the nodes of the current context."""
    return _change(invocation.flags, nodes=invocation.args)


def run_proxy_url(invocation: Invocation) -> int:
    """Set the proxy of the current context, or show it."""
    if invocation.args:
        return _change(invocation.flags, proxy_url=invocation.args[0])
    config, _ = _open(invocation.flags)
    proxy = config.get(invocation.flags.text("context") or config.context).proxy_url
    if proxy:
        console.write_line(proxy)
    return 0


def run_merge(invocation: Invocation) -> int:
    """Take over the contexts of other files; when one can't be read, none is."""
    config, path = _open(invocation.flags)
    notes: list[str] = []
    for source in invocation.args:
        config, renames = config.merge(parse_talosconfig(read_file(source), source=source))
        notes += [f'renamed talosconfig context "{old}" -> "{new}"' for old, new in renames.items()]
    save(config, path)
    for note in notes:
        console.note(note)
    return 0


def run_remove(invocation: Invocation) -> int:
    """Remove the contexts that a pattern matches, except the current one, after a prompt for each."""
    from talos.talosctl.client.refresh_tokens import RefreshTokens

    flags = invocation.flags
    pattern = invocation.args[0]
    config, path = _open(flags)
    names = sorted(fnmatch.filter(config.contexts, pattern))
    if not names:
        known = ", ".join(sorted(config.contexts)) or "none"
        raise UserError(f'no context matches "{pattern}"', where=str(path), hint=f"contexts: {known}")
    is_dry_run = flags.is_set("dry-run")
    is_prompting = not flags.is_set("noconfirm") and not is_dry_run
    changed = config
    for name in names:
        if name == config.context:
            hint = "select another one first: talosctl config context"
            console.note(f'skipping removal of current context "{name}" ({hint})')
        elif is_prompting and not console.confirm(f'remove context "{name}" and its keys?'):
            console.note(f'keeping context "{name}"')
        else:
            console.note(f'removing context "{name}"')
            changed = changed.without_context(name)
    if changed is not config and not is_dry_run:
        save(changed, path)
        for name in config.contexts.keys() - changed.contexts.keys():
            RefreshTokens(talosconfig=path, context=name).forget()
    return 0


def complete_contexts(invocation: Invocation, prefix: str) -> Sequence[str]:  # noqa: ARG001 - a completer's shape
    """Names of contexts."""
    return () if invocation.args else tuple(_open(invocation.flags)[0].contexts)


_HERE = "talos.talosctl.commands."

COMMAND = Command(
    name="config",
    summary="Show and change the client's configuration",
    details="Shows and changes the client's configuration, the talosconfig: clusters, how to reach "
    "them and who you are there.",
    inherited=CLIENT_FLAGS,
    commands=(
        Command(
            name="add",
            usage="<context>",
            summary="Add or replace a context",
            flags=(
                Flag(name="ca", help="the file of the cluster's CA certificate"),
                Flag(name="crt", help="the file of the client certificate"),
                Flag(name="key", help="the file of the client certificate's key"),
            ),
            minimum=1,
            maximum=1,
            run=run_add,
        ),
        Command(
            name="context",
            aliases=("use-context",),
            usage="<context>",
            summary="Make a context the current one",
            minimum=1,
            maximum=1,
            run=run_context,
            complete=complete_contexts,
        ),
        Command(
            name="contexts",
            aliases=("get-contexts",),
            summary="List the contexts",
            flags=(OUTPUT,),
            run=run_contexts,
        ),
        Command(
            name="endpoint",
            aliases=("endpoints",),
            usage="<endpoint>...",
            summary="Set the endpoints of the current context",
            minimum=1,
            maximum=-1,
            run=run_endpoint,
        ),
        Lazy("info", (), "Show the current context", _HERE + "config_info"),
        Command(
            name="merge",
            usage="<from>",
            summary="Take over the contexts of other files",
            details="Takes over the contexts of other talosconfigs. A name that is taken gets a number.",
            minimum=1,
            maximum=-1,
            run=run_merge,
        ),
        Lazy("new", (), "Let the node issue a new client configuration", _HERE + "config_new"),
        Command(
            name="node",
            aliases=("nodes",),
            usage="<endpoint>...",
            summary="Set the nodes of the current context",
            maximum=-1,
            run=run_node,
        ),
        Command(
            name="proxy-url",
            usage="[url]",
            summary="Show or set the proxy of the current context",
            details="Shows the proxy of the current context, or sets it. An empty text removes it.",
            maximum=1,
            run=run_proxy_url,
        ),
        Command(
            name="remove",
            usage="<context>",
            summary="Remove contexts",
            details="Removes the context, or every one that a pattern such as 'test-*' matches. The current "
            "context is never removed.",
            flags=(
                Flag(name="dry-run", type=Type.BOOL, default="false", help="only show which contexts"),
                Flag(name="noconfirm", short="y", type=Type.BOOL, default="false", help="do not prompt"),
            ),
            minimum=1,
            maximum=1,
            run=run_remove,
            complete=complete_contexts,
        ),
    ),
)
