"""``talosctl gen csr``."""

from pathlib import Path

from talos.api.metadata import ADMIN, ROLES
from talos.pki.csr import make_csr
from talos.pki.keys import parse_key
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.output.files import read_file, write_file


def run_csr(invocation: Invocation) -> int:
    """Write ``<key's name>.csr`` beside the key."""
    flags = invocation.flags
    path = flags.text("key")
    roles = sorted({role.strip() for role in flags.texts("roles")} - {""})
    if unknown := [role for role in roles if role not in ROLES]:
        raise UserError(f"unknown roles: {', '.join(unknown)}", hint=f"use {', '.join(ROLES)}")
    key = parse_key(read_file(path), where=path)
    request = make_csr(key, organizations=roles, ips=[flags.text("ip")])
    write_file(Path(path).with_suffix(".csr"), request, force=flags.is_set("force"))
    return 0


COMMAND = Command(
    name="csr",
    summary="Make a certificate request",
    flags=(
        Flag(name="ip", required=True, help="an address the certificate is for"),
        Flag(name="key", required=True, help="the file of the key"),
        Flag(name="roles", type=Type.STRINGS, default=ADMIN, help="what the certificate's owner may do"),
    ),
    run=run_csr,
)
