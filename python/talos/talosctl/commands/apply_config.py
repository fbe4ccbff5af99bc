"""``talosctl apply-config``."""

import re

from talos.api.machine.machine_pb2 import ApplyConfiguration
from talos.api.rpc import RpcError
from talos.client.session import Session, open_session
from talos.config.change.patch import apply_patches
from talos.system.errors import UserError
from talos.system.files import read_file
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.change import make_apply_request, send_config, send_or_try, show_result
from talos.talosctl.client.command import need_nodes, run_async
from talos.talosctl.client.fanout import call_nodes, report_failures
from talos.talosctl.client.flags import CLIENT_FLAGS, CONFIG_CHANGE_FLAGS, INSECURE_FLAGS
from talos.talosctl.client.patches import parse_patches
from talos.talosctl.client.select import find_target

_NOT_WITH_A_PLAN = ("file", "config-patch", "dry-run", "insecure", "mode", "nodes", "timeout")


def run_apply(invocation: Invocation) -> int:
    """Send a config file, patched, to every node; or carry out a plan."""
    flags = invocation.flags
    if flags.is_given("plan"):
        # A config alone needs nothing of it.
        from talos.talosctl.plan.execute import run_plan

        return run_plan(flags)
    if not flags.text("file"):
        raise UserError("no file is named", where="--file", hint="name the configuration")
    text: str | bytes = read_file(flags.text("file"))
    patches = parse_patches(flags.texts("config-patch"))
    if patches:
        text = apply_patches(text, patches, source=flags.text("file"))
    request = make_apply_request(text, flags)

    async def call(session: Session, node: str) -> list[ApplyConfiguration]:
        # A machine in maintenance mode has no config yet; its own dry run has the disk of the installation.
        send = send_config if flags.is_set("insecure") else send_or_try
        try:
            return await send(session, node, request)
        except RpcError as error:
            if patches:
                raise  # its lines are not those of the file
            raise RpcError(error.code, name_file(error.message, flags.text("file")), error.details) from None

    async def main() -> int:
        target = await find_target(flags)
        async with open_session(target) as session:
            outcomes = await call_nodes(session, need_nodes(target), call)
            for outcome in outcomes:
                show_result(outcome.node, outcome.value or [], is_many=len(outcomes) > 1)
            return report_failures(session, outcomes)

    return run_async(main())


def name_file(text: str, file: str) -> str:
    """A node's mistakes, which begin with line and column, with the file before these."""
    return re.sub(r"^(?=\d+:\d+: )", lambda _: f"{file}:", text, flags=re.MULTILINE)


COMMAND = Command(
    name="apply-config",
    aliases=("apply",),
    summary="Give the node a configuration",
    flags=(
        *CLIENT_FLAGS,
        *INSECURE_FLAGS,
        *CONFIG_CHANGE_FLAGS,
        Flag(
            name="config-patch",
            short="p",
            type=Type.STRING_ARRAY,
            help="a patch, @file or a URL; may be repeated",
        ),
        Flag(name="file", short="f", help="the configuration"),
        Flag(name="plan", help="instead of a configuration: what talosctl plan --output json or yaml wrote"),
    ),
    exclusive=tuple(("plan", name) for name in _NOT_WITH_A_PLAN),
    run=run_apply,
)
