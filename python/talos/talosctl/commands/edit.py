"""``talosctl edit``."""

import os
import shlex
import tempfile
from pathlib import Path

from talos.client.session import Session, open_session
from talos.config.problem import ConfigError
from talos.config.read.loader import load
from talos.system.errors import UserError
from talos.system.process import describe_exit, start_command
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag
from talos.talosctl.client.change import fetch_config, make_apply_request, send_or_try, show_result
from talos.talosctl.client.command import need_nodes, run_async
from talos.talosctl.client.fanout import call_nodes, report_failures
from talos.talosctl.client.flags import CLIENT_FLAGS, CONFIG_CHANGE_FLAGS
from talos.talosctl.client.select import find_target
from talos.talosctl.output import console

EDITORS = ("TALOS_EDITOR", "EDITOR")
DEFAULT_EDITOR = "vi"
_MARK = "#! "
"""What begins our own lines at the top; the config's own comments are kept."""
_HEADER = (
    _MARK
    + "This is the configuration of {node}. Lines like this one are left out.\n"
    + _MARK
    + "When nothing is changed, or everything removed, nothing is sent.\n"
)


def run_edit(invocation: Invocation) -> int:
    """Edit the config of one node after the other."""
    flags = invocation.flags

    async def call(session: Session, node: str) -> None:
        old = await fetch_config(session, node, invocation.args[0], flags)
        new = edit_until_valid(node, old)
        if new is None:
            console.note(f"{node}: edit cancelled, nothing changes")
            return
        results = await send_or_try(session, node, make_apply_request(new, flags))
        show_result(node, results, is_many=len(flags.texts("nodes")) > 1)

    async def main() -> int:
        target = await find_target(flags)
        code = 0
        async with open_session(target) as session:
            for node in need_nodes(target):
                code |= report_failures(session, await call_nodes(session, [node], call))
        return code

    return run_async(main())


def edit_until_valid(node: str, old: str) -> str | None:
    """Open the editor until its text is a config; None when nothing was changed."""
    complaint, text = "", old
    while True:
        shown = _HEADER.format(node=node) + complaint + text
        edited = _strip(_edit(shown))
        if not edited.strip() or edited == old or (complaint and edited == text):
            return None
        try:
            load(edited, source="the edited text")
        except ConfigError as error:
            complaint = "".join(f"{_MARK}{problem}\n" for problem in error.problems)
            text = edited
        else:
            return edited


def _strip(text: str) -> str:
    lines = text.splitlines(keepends=True)
    while lines and lines[0].startswith(_MARK):
        lines.pop(0)
    return "".join(lines)


def _edit(text: str) -> str:
    command = next((os.environ[name] for name in EDITORS if os.environ.get(name)), DEFAULT_EDITOR)
    argv = shlex.split(command)
    with tempfile.TemporaryDirectory(prefix="talosctl-") as folder:
        path = Path(folder) / "machineconfig.yaml"
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        # The editor needs this terminal; nothing of it is to be captured.
        editor = start_command([*argv, str(path)], stdin=0, stdout=1, stderr=2, env=os.environ)
        code = editor.wait()
        if code:
            raise UserError(
                f'the editor "{command}" ended with {describe_exit(code)}', hint="nothing was sent"
            )
        return path.read_text(encoding="utf-8")


COMMAND = Command(
    name="edit",
    usage="machineconfig",
    summary="Change the node's configuration in an editor",
    flags=(
        *CLIENT_FLAGS,
        *CONFIG_CHANGE_FLAGS,
        Flag(name="namespace", help="the resource's namespace, by default the type's own"),
    ),
    minimum=1,
    maximum=1,
    run=run_edit,
)
