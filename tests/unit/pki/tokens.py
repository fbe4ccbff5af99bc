"""A PKCS #11 token, by SoftHSM."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from talos.pki.keys import PrivateKey
from talos.system.process import run_command

MODULE = Path("/usr/lib/softhsm/libsofthsm2.so")
PIN = "1234"
UTILITY = "softhsm2-util"


@dataclass(frozen=True, slots=True)
class Token:
    """One with the label ``owner``."""

    folder: Path

    def add_key(self, label: str, number: str, key: PrivateKey) -> None:
        """Put a key into it; the id is in hexadecimal."""
        path = self.folder / "key.pem"
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        argv = ["--import", str(path), "--token", "owner", "--label", label, "--id", number, "--pin", PIN]
        run_command([UTILITY, *argv])
        path.unlink()


def make_token(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Token:
    """Make a token in a folder, for this process; the test is skipped where SoftHSM is not installed."""
    if not (MODULE.exists() and shutil.which(UTILITY)):
        pytest.skip("there is no softhsm2")
    (folder / "tokens").mkdir()
    settings = folder / "softhsm2.conf"
    settings.write_text(f"directories.tokendir = {folder}/tokens\nobjectstore.backend = file\n")
    own = {"SOFTHSM2_CONF": str(settings), "PKCS11_MODULE": str(MODULE), "PKCS11_PIN": PIN}
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    run_command([UTILITY, "--init-token", "--free", "--label", "owner", "--pin", PIN, "--so-pin", PIN])
    return Token(folder)
