"""``sign-netboot``."""

from pathlib import Path

import pytest
from tests.unit.pki.programs import make_program
from tests.unit.secureboot.programs import LOADER, sign_program

from talos.pki.authenticode import Trust, check_signature
from talos.pki.authority import CertificateAuthority
from talos.secureboot.sign_netboot import main
from talos.system.pe import Program

URL = "http://10.0.0.2:8080/assets"


@pytest.fixture
def folder(made: CertificateAuthority, tmp_path: Path) -> Path:
    files = {
        "keys/uki-signing-key.pem": made.pem.key,
        "keys/uki-signing-cert.pem": made.pem.crt,
        "uki/EFI/BOOT/BOOTX64.EFI": LOADER,
        "uki/EFI/Linux/Talos-v1.15.3.efi": make_program([(".text", b"code"), (".cmdline", b"a")], room=2),
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    return tmp_path


def sign(folder: Path, *more: str) -> int:
    argv = ["--keys", str(folder / "keys"), "--out", str(folder / "out"), "--url", URL, *more]
    return main([*argv, str(folder / "uki")])


def test_a_folder_with_both_programs(folder: Path, made: CertificateAuthority) -> None:
    for _ in range(2):  # the second time its files are replaced
        assert sign(folder, "--argument", "debug") == 0
        found = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}
        assert set(found) == {"talos.efi", "systemd-boot.efi"}
        assert found["systemd-boot.efi"] == sign_program(LOADER, made)
        with (folder / "out/talos.efi").open("rb") as file:
            program = Program(file, len(found["talos.efi"]))
            assert check_signature(program, Trust(trusted=[made.certificate])) == made.certificate
            line = program.read_section(".cmdline", 4096).decode()
        assert line == f"a talos.boot.url={URL}/talos.efi debug"


def test_an_argument_with_a_blank(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sign(folder, "--argument", "a b") == 1
    assert "--argument: 'a b' can't be a kernel argument" in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_a_file_in_the_place_of_the_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "out").write_text("mine")
    assert sign(folder) == 1
    assert capsys.readouterr().err == f"sign-netboot: {folder / 'out'}: is no folder\n"
    assert (folder / "out").read_text() == "mine"
