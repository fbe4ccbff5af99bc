"""``talosctl patch``."""

from talos.api.machine.machine_pb2 import ApplyConfiguration
from talos.client.session import Session, open_session
from talos.config.change.patch import apply_patches
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.change import fetch_config, make_apply_request, send_or_try, show_result
from talos.talosctl.client.command import need_nodes, run_async
from talos.talosctl.client.fanout import call_nodes, report_failures
from talos.talosctl.client.flags import CLIENT_FLAGS, CONFIG_CHANGE_FLAGS
from talos.talosctl.client.patches import parse_patches
from talos.talosctl.client.select import find_target
from talos.talosctl.output import console


def run_patch(invocation: Invocation) -> int:
    """Patch the config of every node."""
    flags = invocation.flags
    texts = flags.texts("patch")
    if flags.text("patch-file"):
        texts = (*texts, f"@{flags.text('patch-file')}")
    if not texts:
        raise UserError("no patch is given", where="--patch, --patch-file")
    patches = parse_patches(texts)

    async def call(session: Session, node: str) -> list[ApplyConfiguration]:
        old = await fetch_config(session, node, invocation.args[0], flags)
        new = apply_patches(old, patches, source=f"the config of {node}")
        if new == old:
            console.note(f"{node}: nothing changes")
            return []
        return await send_or_try(session, node, make_apply_request(new, flags))

    async def main() -> int:
        target = await find_target(flags)
        async with open_session(target) as session:
            outcomes = await call_nodes(session, need_nodes(target), call)
            for outcome in outcomes:
                if outcome.value:
                    console.note(f"patched {invocation.args[0]} at the node {outcome.node}")
                    show_result(outcome.node, outcome.value, is_many=len(outcomes) > 1)
            return report_failures(session, outcomes)

    return run_async(main())


COMMAND = Command(
    name="patch",
    usage="machineconfig",
    summary="Change the node's configuration by a patch",
    flags=(
        *CLIENT_FLAGS,
        *CONFIG_CHANGE_FLAGS,
        Flag(name="namespace", help="the resource's namespace, by default the type's own"),
        Flag(
            name="patch", short="p", type=Type.STRING_ARRAY, help="a patch, @file or a URL; may be repeated"
        ),
        Flag(name="patch-file", help="a file with a patch"),
    ),
    minimum=1,
    maximum=1,
    run=run_patch,
)
