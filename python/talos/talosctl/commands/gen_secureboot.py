"""``talosctl gen secureboot``: the keys that boot images and disk encryption policies are signed with."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from talos.pki.authority import CertificateAuthority
from talos.pki.keys import KeyType, key_to_pem
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag
from talos.talosctl.output import console
from talos.talosctl.output.files import check_absent, write_file

LIFETIME = timedelta(days=3650)
PCR_BITS = 2048
"""TPMs need not have more (TCG PC Client Platform TPM Profile)."""


def run_uki(invocation: Invocation) -> int:
    """Write the key that boot images are signed with, and its certificate as PEM and DER."""
    authority = CertificateAuthority.generate(
        KeyType.RSA4096, common_name=invocation.flags.text("common-name"), ttl=LIFETIME
    )
    der = authority.certificate.public_bytes(serialization.Encoding.DER)
    files = {
        "uki-signing-cert.pem": authority.pem.crt,
        "uki-signing-cert.der": der,
        "uki-signing-key.pem": authority.pem.key,
    }
    return _write(invocation, files)


def run_pcr(invocation: Invocation) -> int:
    """Write the key that the expected values of PCRs are signed with."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=PCR_BITS)
    return _write(invocation, {"pcr-signing-key.pem": key_to_pem(key)})


def _write(invocation: Invocation, files: Mapping[str, bytes]) -> int:
    folder, force = Path(invocation.flags.text("output")), invocation.flags.is_set("force")
    check_absent(*(folder / name for name in files), force=force)
    for name, content in files.items():
        console.note(f"writing {folder / name}")
        write_file(folder / name, content, force=force)
    return 0


COMMAND = Command(
    name="secureboot",
    summary="Make keys for Secure Boot and encrypted disks",
    inherited=(Flag(name="output", short="o", default="_out", help="the folder to write into"),),
    commands=(
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
