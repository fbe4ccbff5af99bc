"""``talosctl gen keypair``."""

from pathlib import Path

from talos.pki.authority import NODE_LIFETIME, CertificateAuthority
from talos.pki.keys import KeyType
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag
from talos.talosctl.output.files import check_absent, write_file


def run_keypair(invocation: Invocation) -> int:
    """Write ``<organization>.crt``, which its own key signs for a day, and ``.key``."""
    flags = invocation.flags
    name, ip, force = flags.text("organization"), flags.text("ip"), flags.is_set("force")
    pair = CertificateAuthority.generate(
        KeyType.ED25519, organizations=[name], ips=[ip] if ip else [], ttl=NODE_LIFETIME
    ).pem
    crt, key = Path(f"{name}.crt"), Path(f"{name}.key")
    check_absent(crt, key, force=force)
    write_file(crt, pair.crt, force=force)
    write_file(key, pair.key, force=force)
    return 0


COMMAND = Command(
    name="keypair",
    summary="Make a key and a certificate signed with it, valid for 24 hours",
    flags=(
        Flag(name="ip", help="an address the certificate is for"),
        Flag(name="organization", required=True, help="its organization, and the files' name"),
    ),
    run=run_keypair,
)
