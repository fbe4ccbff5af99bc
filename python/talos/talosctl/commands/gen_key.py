"""``talosctl gen key``."""

from pathlib import Path

from talos.pki.keys import KeyType, key_to_pem, make_key
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag
from talos.talosctl.output.files import write_file


def run_key(invocation: Invocation) -> int:
    """Write ``<name>.key``."""
    flags = invocation.flags
    key = key_to_pem(make_key(KeyType.ED25519))
    write_file(Path(f"{flags.text('name')}.key"), key, force=flags.is_set("force"))
    return 0


COMMAND = Command(
    name="key",
    summary="Make an Ed25519 key",
    flags=(Flag(name="name", required=True, help="the file to write, without .key"),),
    run=run_key,
)
