"""``talosctl image cache-cert-gen``: TLS between nodes and a cache of images."""

from ipaddress import ip_address
from pathlib import Path

from talos.config.documents.security.trusted_roots import TrustedRootsConfig
from talos.config.model import Config
from talos.config.read.loader import dump
from talos.pki.authority import CA_LIFETIME, CertificateAuthority, Usage
from talos.pki.keys import KeyType
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.output import console
from talos.talosctl.output.files import write_file

PATCH = Path("image-cache-patch.yaml")
DOCUMENT = "image-cache-ca"
ORGANIZATION = "talos"
_PUBLIC, _PRIVATE = 0o644, 0o600


def run_cert_gen(invocation: Invocation) -> int:
    """Write an authority, a certificate and key by it, and a config patch that trusts the authority."""
    flags = invocation.flags
    addresses, names = _addresses(flags), flags.texts("advertised-name")
    if not addresses and not names:
        raise UserError("is missing", where="--advertised-address", hint="the address that nodes connect to")
    authority = CertificateAuthority.generate(KeyType.P256, organizations=[ORGANIZATION])
    server = authority.issue(
        organizations=[ORGANIZATION], ips=addresses, dns_names=names, ttl=CA_LIFETIME, usages=Usage.SERVER
    )
    patch = dump(Config((TrustedRootsConfig(name=DOCUMENT, certificates=authority.crt.decode()),)))
    contents = (
        (PATCH, patch.encode(), _PUBLIC),
        (Path(flags.text("tls-ca-file")), authority.crt, _PUBLIC),
        (Path(flags.text("tls-cert-file")), server.crt, _PUBLIC),
        (Path(flags.text("tls-key-file")), server.key, _PRIVATE),
    )
    for path, content, mode in contents:
        write_file(path, content, force=True, mode=mode)
        console.note(f"Created {path}")
    return 0


def _addresses(flags: Flags) -> list[str]:
    addresses = flags.texts("advertised-address")
    for address in addresses:
        try:
            ip_address(address)
        except ValueError as error:
            raise UserError(str(error), where="--advertised-address", hint="such as 10.0.0.1") from None
    return list(addresses)


COMMAND = Command(
    name="cache-cert-gen",
    summary="Make certificates for a cache of images, and a config patch that trusts them",
    flags=(
        Flag(name="advertised-address", type=Type.STRINGS, metavar="ipSlice", help="addresses of the cache"),
        Flag(name="advertised-name", type=Type.STRINGS, help="names of the cache"),
        Flag(name="tls-ca-file", default="ca.crt", help="the file to write the authority's certificate to"),
        Flag(name="tls-cert-file", default="tls.crt", help="the file to write the certificate to"),
        Flag(name="tls-key-file", default="tls.key", help="the file to write the key to"),
    ),
    run=run_cert_gen,
)
