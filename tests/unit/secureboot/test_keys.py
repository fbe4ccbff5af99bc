"""Keys of Secure Boot and of PCR policies that no file has: behind a command, and in a token."""

import io
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.unit.pki.programs import make_program, make_uki
from tests.unit.pki.test_signer import PROGRAM
from tests.unit.pki.tokens import make_token
from tests.unit.secureboot.programs import LOADER, sign_program

from talos.pki.authority import CertificateAuthority
from talos.pki.keys import key_to_pem
from talos.secureboot.keys import read_keys
from talos.secureboot.sign_netboot import main
from talos.system.errors import UserError
from talos.system.pe import Program
from talos.system.process import run_command
from talos.system.tpm.signed_policy import parse_image_policy
from talos.system.tpm.uki import measure_profiles


@pytest.fixture(scope="module")
def policy_key() -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


@pytest.fixture
def folder(made: CertificateAuthority, policy_key: RSAPrivateKey, tmp_path: Path) -> Path:
    """A folder of keys without a private one, and programs."""
    public = policy_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    files = {
        "keys/uki-signing-cert.pem": made.pem.crt,
        "keys/pcr-signing-public-key.pem": public,
        "uki/EFI/BOOT/BOOTX64.EFI": LOADER,
        "uki/EFI/Linux/Talos-v1.efi": make_program(
            [(".text", b"code"), (".cmdline", b"a"), (".profile", b"ID=main"), (".profile", b"ID=trial")],
            room=3,
        ),
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    return tmp_path


def sign(folder: Path, *flags: str) -> int:
    argv = ["--keys", str(folder / "keys"), "--out", str(folder / "out"), "--url", "http://10.0.0.2", *flags]
    return main([*argv, str(folder / "uki")])


def check(folder: Path, made: CertificateAuthority) -> None:
    """That both keys have signed."""
    assert (folder / "out/systemd-boot.efi").read_bytes() == sign_program(LOADER, made)
    data = (folder / "out/talos.efi").read_bytes()
    program = Program(io.BytesIO(data), len(data))
    policy = parse_image_policy(
        program.read_section(".pcrpkey", 4096), program.read_section(".pcrsig", 4096), "the UKI"
    )
    assert policy.find(measure_profiles(program)[0])


def test_commands(
    folder: Path, made: CertificateAuthority, policy_key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    (folder / "secret.pem").write_bytes(made.pem.key)
    (folder / "policies.pem").write_bytes(key_to_pem(policy_key))
    commands: Sequence[str] = [
        f"command:{shlex.join([sys.executable, '-c', PROGRAM, str(folder / name)])}"
        for name in ("secret.pem", "policies.pem")
    ]
    assert sign(folder, "--key", commands[0], "--pcr-key", commands[1]) == 0
    check(folder, made)


def test_a_token(
    folder: Path,
    made: CertificateAuthority,
    policy_key: RSAPrivateKey,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    token = make_token(folder, monkeypatch)
    assert isinstance(made.key, rsa.RSAPrivateKey)
    token.add_key("db", "01", made.key)
    token.add_key("policies", "02", policy_key)
    uris = ["pkcs11:token=owner;object=db", "pkcs11:token=owner;object=policies"]
    assert sign(folder, "--key", uris[1], "--pcr-key", uris[1]) == 1
    assert "object=policies: its answer of 256 bytes is no signature of the key " in capsys.readouterr().err
    assert not list((folder / "out").iterdir())
    assert sign(folder, "--key", uris[0], "--pcr-key", uris[1]) == 0
    check(folder, made)


def test_a_public_key_of_policies_wants_its_private_one(
    folder: Path, made: CertificateAuthority, policy_key: RSAPrivateKey
) -> None:
    (folder / "keys/uki-signing-key.pem").write_bytes(made.pem.key)
    public, path = folder / "keys/pcr-signing-public-key.pem", folder / "keys/pcr-signing-key.pem"
    with pytest.raises(UserError) as caught:
        read_keys(path.parent)
    assert str(caught.value) == f"{public}: its private key is missing (--pcr-key names it)"
    path.write_bytes(key_to_pem(generate_private_key(65537, 2048)))
    with pytest.raises(UserError) as caught:
        read_keys(path.parent)
    assert str(caught.value) == f"{path}: does not belong to {public}"
    path.write_bytes(key_to_pem(policy_key))
    assert read_keys(path.parent).policies


def test_keys_that_tpms_do_not_take(folder: Path, made: CertificateAuthority) -> None:
    (folder / "keys/uki-signing-key.pem").write_bytes(made.pem.key)
    path = folder / "keys/pcr-signing-key.pem"
    for key, reason in (
        (generate_private_key(65537, 3072), "TPMs take RSA keys of 2048 bits only"),
        (ec.generate_private_key(ec.SECP256R1()), "is no RSA or Ed25519 key"),
    ):
        path.write_bytes(key_to_pem(key))
        with pytest.raises(UserError, match=reason) as caught:
            read_keys(path.parent)
        assert str(caught.value).startswith(str(path))
    (folder / "keys/pcr-signing-public-key.pem").unlink()
    with pytest.raises(UserError, match=r"pcr-signing-public-key\.pem: can't be read"):
        read_keys(path.parent, pcr_key="command:sign")


@pytest.mark.parametrize("program", [LOADER, make_uki("v1.15.3"), make_uki("v1.15.3") + b"odd"])
def test_sbverify_and_sbsign_agree(tmp_path: Path, signing: CertificateAuthority, program: bytes) -> None:
    if not shutil.which("sbverify"):
        pytest.skip("there is no sbsigntool")
    certificate, key, image = (tmp_path / name for name in ("certificate.pem", "key.pem", "image.efi"))
    certificate.write_bytes(signing.pem.crt)
    key.write_bytes(signing.pem.key)
    image.write_bytes(program)
    ours, theirs = tmp_path / "ours.efi", tmp_path / "theirs.efi"
    ours.write_bytes(sign_program(program, signing))
    argv = ["--key", str(key), "--cert", str(certificate), "--output", str(theirs)]
    run_command(["sbsign", *argv, str(image)])
    for path in (ours, theirs):
        run_command(["sbverify", "--cert", str(certificate), str(path)])
    run_command(["sbattach", "--remove", str(ours)])
    run_command(["sbattach", "--remove", str(theirs)])
    assert ours.read_bytes() == theirs.read_bytes()
