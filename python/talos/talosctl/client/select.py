"""From the talosconfig and the flags to what a command talks to."""

from ipaddress import ip_address

from talos.client.endpoint import parse_endpoint
from talos.client.target import Target
from talos.config.talosconfig.model import HOW_TO_BEGIN, Context, TalosConfig
from talos.config.talosconfig.places import open_talosconfig
from talos.system.errors import UserError
from talos.talosctl.cli.flag import Flags


async def find_target(flags: Flags) -> Target:
    """What :func:`select_target` has, with groups of nodes and names of members resolved."""
    target = select_target(flags)
    if target.insecure or not any(is_name(node) for node in target.nodes):
        return target
    # Addresses, which are the rule, need none of it.
    from talos.talosctl.client.nodes import resolve_nodes

    return await resolve_nodes(target)


def is_name(node: str) -> bool:
    """Whether a node of the command line may have to be looked up: it is no address."""
    try:
        ip_address(node)
    except ValueError:
        return True
    return False


def select_target(flags: Flags) -> Target:
    """The context the flags name, or the current one, with the flags' own values on top."""
    if flags.has("insecure") and flags.is_set("insecure"):
        return _insecure_target(flags)
    config, path = open_talosconfig(flags.text("talosconfig"))
    name = flags.text("context") or config.context
    if not name and not config.contexts:
        reason = "it has no context yet" if path.exists() else "there is no such file"
        raise UserError(f"failed to determine endpoints: {reason}", where=str(path), hint=HOW_TO_BEGIN)
    context = _context(config, name, flags)
    basic = context.auth.basic if context.auth else None
    if context.auth and context.auth.siderov1:
        raise UserError(
            "it requires requests signed by a SideroV1 key, which this client does not support",
            where=f'context "{name}"',
            hint="use a context with a certificate",
        )
    return Target(
        context=name,
        endpoints=tuple(parse_endpoint(text) for text in flags.texts("endpoints") or context.endpoints),
        nodes=flags.texts("nodes") or context.nodes,
        ca=context.ca,
        crt=context.crt,
        key=context.key,
        proxy_url=context.proxy_url,
        cluster=flags.text("cluster") or context.cluster,
        basic_auth=f"{basic.username}:{basic.password}" if basic else "",
    )


def _insecure_target(flags: Flags) -> Target:
    # A node in maintenance mode belongs to no cluster: no context describes it.
    fingerprints = flags.texts("cert-fingerprint") if flags.has("cert-fingerprint") else ()
    nodes = flags.texts("nodes")
    if not nodes:
        raise UserError(
            "nodes are not set for the command", where="--nodes", hint="with --insecure name them"
        )
    return Target(endpoints=(), nodes=nodes, insecure=True, fingerprints=fingerprints)


def _context(config: TalosConfig, name: str, flags: Flags) -> Context:
    context = config.get(name)
    if not (flags.texts("endpoints") or context.endpoints):
        raise UserError(
            "failed to determine endpoints: it has none",
            where=f'context "{name}"',
            hint="set some with `talosctl config endpoint <address>...` or give --endpoints",
        )
    return context
