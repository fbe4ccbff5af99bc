"""EFI programs signed for Secure Boot (Authenticode), by Debian's sbsigntool."""

import os
from collections.abc import Mapping
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from talos.pki.certificate import parse_certificate
from talos.pki.keys import parse_key
from talos.system.errors import UserError
from talos.system.process import make_pinned_argv, run_command

ROOT_VARIABLE = "TALOS_UKI_ROOT"
_MAGIC = b"MZ"


def sign_image(
    image: Path, out: Path, *, key: Path, certificate: Path, environment: Mapping[str, str] = os.environ
) -> x509.Certificate:
    """Write a signed copy of an image, which firmware that has the certificate starts; the certificate.

    UserError, OSError; then there is no copy.
    """
    root = environment.get(ROOT_VARIABLE, "")
    if not root:
        raise UserError("is not set", where=ROOT_VARIABLE, hint="start it as `nix run .#sign-efi`")
    signer = parse_certificate(certificate.read_bytes(), where=str(certificate))
    _check_pair(key, signer, certificate)
    with image.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise UserError("is no EFI program", where=str(image), hint="sign the .efi files of .#uki")
    new = out.with_name(f".{out.name}.new")
    argv = make_pinned_argv(root, "usr/bin/sbsign")
    argv = (*argv, "--key", str(key), "--cert", str(certificate), "--output", str(new), str(image))
    try:
        # Not the host's settings of OpenSSL, which name modules of its own.
        run_command(argv, env={"OPENSSL_CONF": "/dev/null"})
        new.replace(out)
    finally:
        new.unlink(missing_ok=True)
    return signer


def _check_pair(path: Path, signer: x509.Certificate, certificate: Path) -> None:
    key = parse_key(path.read_bytes(), where=str(path))
    if not isinstance(key, rsa.RSAPrivateKey):
        raise UserError("firmware takes RSA keys only", where=str(path))
    if signer.public_key() != key.public_key():
        raise UserError(f"does not belong to {certificate}", where=str(path))
