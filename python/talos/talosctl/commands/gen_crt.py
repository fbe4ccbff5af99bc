"""``talosctl gen crt``."""

from datetime import timedelta
from pathlib import Path

from talos.pki.authority import CertificateAuthority, Usage
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.output.files import read_file, write_file


def run_crt(invocation: Invocation) -> int:
    """Write ``<name>.crt``, a client certificate signed by ``<ca>.crt`` and ``<ca>.key``."""
    flags = invocation.flags
    ca = flags.text("ca")
    authority = CertificateAuthority.from_pem(read_file(f"{ca}.crt"), read_file(f"{ca}.key"), where=ca)
    request = flags.text("csr")
    certificate = authority.sign(
        read_file(request),
        ttl=timedelta(hours=flags.number("hours")),
        usages=Usage.CLIENT,
        where=request,
    )
    write_file(Path(f"{flags.text('name')}.crt"), certificate, force=flags.is_set("force"))
    return 0


COMMAND = Command(
    name="crt",
    summary="Sign a certificate request",
    flags=(
        Flag(name="ca", required=True, help="the authority's files without .crt and .key"),
        Flag(name="csr", required=True, help="the file of the certificate request"),
        Flag(name="hours", type=Type.INT, default="24", help="how long it is valid"),
        Flag(name="name", required=True, help="the file to write, without .crt"),
    ),
    run=run_crt,
)
