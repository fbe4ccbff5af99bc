"""``talosctl gen secureboot``: the keys that boot images and disk encryption policies are signed with."""

from datetime import timedelta

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType, key_to_pem
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag
from talos.talosctl.commands.gen_secureboot_database import DATABASE_COMMAND, UPDATE_COMMAND, write_files

LIFETIME = timedelta(days=3650)
PCR_BITS = 2048
"""TPMs need not have more (TCG PC Client Platform TPM Profile)."""


def run_uki(invocation: Invocation) -> int:
    """Write the key that boot images are signed with, and its certificate as PEM and DER."""
    authority = CertificateAuthority.generate(
        KeyType.RSA4096,
        common_name=invocation.flags.text("common-name"),
        ttl=LIFETIME,
        usages=Usage.CODE_SIGNING,
    )
    der = authority.certificate.public_bytes(serialization.Encoding.DER)
    files = {
        "uki-signing-cert.pem": authority.pem.crt,
        "uki-signing-cert.der": der,
        "uki-signing-key.pem": authority.pem.key,
    }
    return write_files(invocation, files)


def run_pcr(invocation: Invocation) -> int:
    """Write the key that the expected values of PCRs are signed with."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=PCR_BITS)
    return write_files(invocation, {"pcr-signing-key.pem": key_to_pem(key)})


COMMAND = Command(
    name="secureboot",
    summary="Make keys for Secure Boot and encrypted disks",
    inherited=(Flag(name="output", short="o", default="_out", help="the folder to write into"),),
    commands=(
        DATABASE_COMMAND,
        UPDATE_COMMAND,
        Command(name="pcr", summary="Make the key that PCR values are signed with", run=run_pcr),
        Command(
            name="uki",
            summary="Make the key and certificate that boot images are signed with",
            flags=(
                Flag(
                    name="common-name",
                    default="Test UKI Signing Key",
                    help="the certificate's common name",
                ),
            ),
            run=run_uki,
        ),
    ),
)
