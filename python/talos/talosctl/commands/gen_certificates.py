"""Keys and certificates: ``talosctl gen ca``, ``crt``, ``csr``, ``key``, ``keypair``."""

import hashlib
from datetime import timedelta
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from talos.api.metadata import ADMIN
from talos.pki.authority import NODE_LIFETIME, CertificateAuthority, Usage
from talos.pki.csr import make_csr
from talos.pki.keys import KeyType, key_to_pem, make_key, parse_key
from talos.system.files import read_file
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.roles import read_roles
from talos.talosctl.output.files import check_absent, write_file


def run_ca(invocation: Invocation) -> int:
    """Write ``<organization>.crt``, ``.key`` and ``.sha256``, the hash that kubeadm pins."""
    flags = invocation.flags
    name, force = flags.text("organization"), flags.is_set("force")
    authority = CertificateAuthority.generate(
        KeyType.RSA4096 if flags.is_set("rsa") else KeyType.ED25519,
        organizations=[name],
        ttl=timedelta(hours=flags.number("hours")),
    )
    key = authority.certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    crt, digest, private = (Path(f"{name}.{suffix}") for suffix in ("crt", "sha256", "key"))
    check_absent(crt, digest, private, force=force)
    write_file(crt, authority.crt, force=force)
    write_file(digest, hashlib.sha256(key).hexdigest(), force=force)
    write_file(private, authority.pem.key, force=force)
    return 0


CA = Command(
    name="ca",
    summary="Make a certificate authority",
    flags=(
        Flag(name="hours", type=Type.INT, default="87600", help="how many hours the certificate is valid"),
        Flag(name="organization", required=True, help="its organization, and the files' name"),
        Flag(name="rsa", type=Type.BOOL, default="false", help="an RSA key instead of an Ed25519 one"),
    ),
    run=run_ca,
)


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


CRT = Command(
    name="crt",
    summary="Sign a certificate request",
    flags=(
        Flag(name="ca", required=True, help="the authority's files without .crt and .key"),
        Flag(name="csr", required=True, help="the file of the certificate request"),
        Flag(name="hours", type=Type.INT, default="24", help="how many hours the certificate is valid"),
        Flag(name="name", required=True, help="the file to write, without .crt"),
    ),
    run=run_crt,
)


def run_csr(invocation: Invocation) -> int:
    """Write ``<key's name>.csr`` beside the key."""
    flags = invocation.flags
    path = flags.text("key")
    roles = read_roles(flags)
    key = parse_key(read_file(path), where=path)
    request = make_csr(key, organizations=roles, ips=[flags.text("ip")])
    write_file(Path(path).with_suffix(".csr"), request, force=flags.is_set("force"))
    return 0


CSR = Command(
    name="csr",
    summary="Make a certificate request",
    flags=(
        Flag(name="ip", required=True, help="an address the certificate is for"),
        Flag(name="key", required=True, help="the file of the key"),
        Flag(name="roles", type=Type.STRINGS, default=ADMIN, help="what the certificate's owner may do"),
    ),
    run=run_csr,
)


def run_key(invocation: Invocation) -> int:
    """Write ``<name>.key``."""
    flags = invocation.flags
    key = key_to_pem(make_key(KeyType.ED25519))
    write_file(Path(f"{flags.text('name')}.key"), key, force=flags.is_set("force"))
    return 0


KEY = Command(
    name="key",
    summary="Make an Ed25519 key",
    flags=(Flag(name="name", required=True, help="the file to write, without .key"),),
    run=run_key,
)


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


KEYPAIR = Command(
    name="keypair",
    summary="Make a key and a certificate signed with it, valid for 24 hours",
    flags=(
        Flag(name="ip", help="an address the certificate is for"),
        Flag(name="organization", required=True, help="its organization, and the files' name"),
    ),
    run=run_keypair,
)
