"""``talosctl config remove``."""

import fnmatch

from talos.config.talosconfig import open_talosconfig, save
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.contexts import complete_contexts
from talos.talosctl.output import console


def run_remove(invocation: Invocation) -> int:
    """Remove the contexts that a pattern matches, after asking."""
    flags = invocation.flags
    pattern = invocation.args[0]
    config, path = open_talosconfig(flags.text("talosconfig"))
    names = sorted(fnmatch.filter(config.contexts, pattern))
    if not names:
        known = ", ".join(sorted(config.contexts)) or "none"
        raise UserError(f'no context matches "{pattern}"', where=str(path), hint=f"contexts: {known}")
    if flags.is_set("dry-run"):
        for name in names:
            console.write_line(f'context "{name}" would be removed')
        return 0
    for name in names:
        config = config.without_context(name)
    question = f"remove {', '.join(names)}? its keys are gone then"
    if not flags.is_set("noconfirm") and not console.ask(question):
        raise UserError("nothing was removed", hint="agree with y, or use --noconfirm")
    save(config, path)
    return 0


COMMAND = Command(
    name="remove",
    usage="<context>",
    summary="Remove contexts",
    details="Removes the context, or every one that a pattern such as 'test-*' matches.",
    flags=(
        Flag(name="dry-run", type=Type.BOOL, default="false", help="only say which"),
        Flag(name="noconfirm", short="y", type=Type.BOOL, default="false", help="do not ask"),
    ),
    least=1,
    most=1,
    run=run_remove,
    complete=complete_contexts,
)
