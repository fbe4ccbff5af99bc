"""``talosctl gen keypair``."""

from pathlib import Path

from talos.pki.authority import CertificateAuthority
from talos.pki.keys import KeyType
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag
from talos.talosctl.output.files import write_file


def run_keypair(invocation: Invocation) -> int:
    """Write ``<organization>.crt`` and ``.key``."""
    flags = invocation.flags
    name, ip, force = flags.text("organization"), flags.text("ip"), flags.is_set("force")
    authority = CertificateAuthority.generate(KeyType.ED25519, organizations=[name])
    # An address can only stand in a leaf; without one the authority itself is the pair.
    pair = authority.issue(organizations=[name], ips=[ip], key_type=KeyType.ED25519) if ip else authority.pem
    write_file(Path(f"{name}.crt"), pair.crt, force=force)
    write_file(Path(f"{name}.key"), pair.key, force=force)
    return 0


COMMAND = Command(
    name="keypair",
    summary="Make a key and a certificate that it signs itself",
    flags=(
        Flag(name="ip", help="an address the certificate is for"),
        Flag(name="organization", required=True, help="its organization, and the files' name"),
    ),
    run=run_keypair,
)
