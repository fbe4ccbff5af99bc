"""``talosctl gen ca``."""

import hashlib
from datetime import timedelta
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from talos.pki.authority import CertificateAuthority
from talos.pki.keys import KeyType
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
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


COMMAND = Command(
    name="ca",
    summary="Make a certificate authority",
    flags=(
        Flag(name="hours", type=Type.INT, default="87600", help="how long it is valid"),
        Flag(name="organization", required=True, help="its organization, and the files' name"),
        Flag(name="rsa", type=Type.BOOL, default="false", help="an RSA key instead of an Ed25519 one"),
    ),
    run=run_ca,
)
