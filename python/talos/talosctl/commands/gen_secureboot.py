"""``talosctl gen secureboot``: the keys that boot images and disk encryption policies are signed with."""

from collections.abc import Mapping
from datetime import timedelta

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import certificate_to_pem
from talos.pki.keys import KeyType, key_to_pem
from talos.secureboot.keys import KEY_HELP, make_certificate
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag
from talos.talosctl.commands.gen_secureboot_database import DATABASE_COMMAND, UPDATE_COMMAND, write_files

LIFETIME = timedelta(days=3650)
PCR_BITS = 2048
"""TPMs need not have more (TCG PC Client Platform TPM Profile)."""


def run_uki(invocation: Invocation) -> int:
    """Write the key that boot images are signed with, and its certificate as PEM and DER."""
    flags = invocation.flags
    name, key, public = flags.text("common-name"), flags.text("key"), flags.text("public-key")
    if bool(key) != bool(public):
        raise UserError("come together", where="--key, --public-key")
    if key:
        return write_files(invocation, _list_files(make_certificate(key, public, name, LIFETIME)))
    authority = CertificateAuthority.generate(
        KeyType.RSA4096, common_name=name, ttl=LIFETIME, usages=Usage.CODE_SIGNING
    )
    files = {**_list_files(authority.certificate), "uki-signing-key.pem": authority.pem.key}
    return write_files(invocation, files)


def _list_files(certificate: x509.Certificate) -> Mapping[str, bytes]:
    return {
        "uki-signing-cert.pem": certificate_to_pem(certificate),
        "uki-signing-cert.der": certificate.public_bytes(serialization.Encoding.DER),
    }


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
            details="With --key and --public-key, the certificate alone, which that key signs.",
            flags=(
                Flag(
                    name="common-name",
                    default="Test UKI Signing Key",
                    help="the certificate's common name",
                ),
                Flag(name="key", help=f"a key that is there already, RSA: {KEY_HELP}"),
                Flag(name="public-key", help="the file of its public half, in PEM"),
            ),
            run=run_uki,
        ),
    ),
)
