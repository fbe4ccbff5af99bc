"""``talosctl gen csr``."""

from pathlib import Path

from talos.pki.csr import make_csr
from talos.pki.keys import parse_key
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.output.files import read_file, write_file


def run_csr(invocation: Invocation) -> int:
    """Write ``<key's name>.csr`` beside the key."""
    flags = invocation.flags
    path = flags.text("key")
    ip = flags.text("ip")
    request = make_csr(
        parse_key(read_file(path), where=path), organizations=flags.texts("roles"), ips=[ip] if ip else []
    )
    write_file(Path(path).with_suffix(".csr"), request, force=flags.is_set("force"))
    return 0


COMMAND = Command(
    name="csr",
    summary="Make a certificate request",
    flags=(
        Flag(name="ip", help="an address the certificate is for"),
        Flag(name="key", required=True, help="the file of the key"),
        Flag(name="roles", type=Type.STRINGS, default="os:admin", help="what the certificate's owner may do"),
    ),
    run=run_csr,
)
