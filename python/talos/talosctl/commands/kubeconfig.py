"""``talosctl kubeconfig``."""

from pathlib import Path

from talos.client.session import open_session
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import need_one_node, run_async
from talos.talosctl.client.fanout import call_nodes, report_failures
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.kubeconfig import fetch_kubeconfig, find_context, find_user_file, merge_into, save
from talos.talosctl.client.select import find_target
from talos.talosctl.output import console


def run_kubeconfig(invocation: Invocation) -> int:
    """Save the admin kubeconfig, or merge it into the user's."""

    async def main() -> int:
        target = await find_target(invocation.flags)
        async with open_session(target) as session:
            outcomes = await call_nodes(session, [need_one_node(target, "kubeconfig")], fetch_kubeconfig)
            if outcomes[0].value is not None:
                _save(outcomes[0].value, invocation)
            return report_failures(session, outcomes)

    return run_async(main())


def _save(text: str, invocation: Invocation) -> None:
    flags = invocation.flags
    local = invocation.args[0] if invocation.args else ""
    if local == "-":
        console.write(text)
        return
    path = _destination(local, merges=flags.is_set("merge"))
    if path.exists() and flags.is_set("merge"):
        wanted = flags.text("force-context-name")
        name = merge_into(path, text, wanted, force=flags.is_set("force"))
        if name != (wanted or find_context(text)):
            console.write_line(f'renamed context "{wanted or find_context(text)}" -> "{name}"')
    elif path.exists() and not flags.is_set("force"):
        raise UserError(
            "it exists", where=str(path), hint="use --force to overwrite it or --merge to add to it"
        )
    else:
        save(path, text)


def _destination(local: str, *, merges: bool) -> Path:
    if not local:
        return find_user_file() if merges else Path("kubeconfig")
    path = Path(local)
    return path / "kubeconfig" if path.is_dir() or local.endswith("/") else path


COMMAND = Command(
    name="kubeconfig",
    usage="[local-path]",
    summary="Get the cluster's admin kubeconfig",
    details="Gets the admin kubeconfig and merges it into ~/.kube/config, or into the given file. With - "
    "prints it, with --merge=false and no path writes the file kubeconfig.",
    flags=(
        *CLIENT_FLAGS,
        Flag(name="force", short="f", type=Type.BOOL, default="false", help="overwrite what exists"),
        Flag(name="force-context-name", help="the name of the merged context"),
        Flag(name="merge", short="m", type=Type.BOOL, default="true", help="add to an existing kubeconfig"),
    ),
    maximum=1,
    run=run_kubeconfig,
)
