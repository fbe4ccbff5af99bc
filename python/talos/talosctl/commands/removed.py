"""Commands of older clients; they name their replacement."""

from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.client.flags import CLIENT_FLAGS, INSECURE_FLAGS

_INSTEAD = {"disks": "disks", "interfaces": "addresses", "routes": "routes"}


def _run(invocation: Invocation) -> int:
    name = invocation.path[-1]
    raise UserError(f"talosctl {name} was removed", hint=f"use talosctl get {_INSTEAD.get(name, 'rd')}")


COMMAND = Command(
    name="removed",
    summary="",
    flags=(*CLIENT_FLAGS, *INSECURE_FLAGS),
    maximum=-1,
    run=_run,
    hidden=True,
)
