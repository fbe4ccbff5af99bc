"""``talosctl gen``, ``validate`` and ``machineconfig``: all of it without a node."""

import stat
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from talos.config.read.loader import load
from talos.config.secrets.bundle import SecretsBundle
from talos.config.talosconfig.text import parse_talosconfig
from talos.pki.certificate import parse_certificate
from talos.pki.keys import parse_key
from talos.talosctl.cli.exit import Exit
from talos.talosctl.main import run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("secrets") / "secrets.yaml"
    assert run(["gen", "secrets", "-o", str(path)]) == 0
    return str(path)


def test_config_from_secrets(folder: Path, secrets: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["gen", "config", "demo", "https://10.0.0.2", "--with-secrets", secrets]
    assert run(argv) == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "controlplane.yaml",
        "talosconfig",
        "worker.yaml",
    ]
    capsys.readouterr()
    assert run(argv) == 1
    assert "already exists, use --force to overwrite" in capsys.readouterr().err
    assert run([*argv, "--force"]) == 0
    config = load((folder / "controlplane.yaml").read_bytes())
    assert config.machine_type.value == "controlplane"
    bundle = SecretsBundle.parse(Path(secrets).read_text())
    assert parse_talosconfig((folder / "talosconfig").read_text()).current.ca == bundle.os.crt
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == dict.fromkeys(modes, 0o600), "the cluster's keys are in each of them"


def test_generated_configs_are_valid(folder: Path, secrets: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(["gen", "config", "demo", "https://10.0.0.2:6443", "--with-secrets", secrets, "-o", "out"])
    for name in ("controlplane", "worker"):
        assert run(["validate", "-c", f"out/{name}.yaml", "-m", "metal"]) == 0
        assert f"out/{name}.yaml is valid for metal mode" in capsys.readouterr().out


def test_one_type_to_the_output(secrets: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        "gen",
        "config",
        "demo",
        "https://10.0.0.2",
        "--with-secrets",
        secrets,
        "-t",
        "worker",
        "-o",
        "-",
    ]
    assert (
        run(
            [
                *argv,
                "--with-docs=false",
                "--with-examples=false",
                "--config-patch",
                "machine: {certSANs: [x.example]}",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert load(out).machine_type.value == "worker"
    assert "x.example" in out
    assert run([*argv[:-4], "-o", "-"]) == Exit.USAGE
    assert "can't use multiple output types with stdout" in capsys.readouterr().err


def test_patch(folder: Path, secrets: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(
        [
            "gen",
            "config",
            "demo",
            "https://10.0.0.2",
            "--with-secrets",
            secrets,
            "-t",
            "worker",
            "-o",
            "w.yaml",
        ]
    )
    (folder / "patch.yaml").write_text("machine:\n  certSANs:\n    - one.example\n")
    capsys.readouterr()
    assert run(["mc", "patch", "w.yaml", "-p", "@patch.yaml", "-o", "new.yaml"]) == 0
    assert stat.S_IMODE(Path("new.yaml").stat().st_mode) == 0o600
    assert "one.example" in (folder / "new.yaml").read_text()
    assert run(["mc", "patch", "w.yaml", "-p", "patch.yaml"]) == 0
    assert capsys.readouterr().out == (folder / "new.yaml").read_text() + "\n"
    assert run(["mc", "patch", "w.yaml"]) == 0
    assert capsys.readouterr().out == (folder / "w.yaml").read_text() + "\n"
    assert run(["mc", "patch", "w.yaml", "-p", "none.yaml"]) == 1
    assert "none.yaml: can't be read" in capsys.readouterr().err
    assert run(["machineconfig", "patch", "w.yaml", "-p", "machine: {certSANS: []}"]) == 1
    assert "certSANS" in capsys.readouterr().err
    assert run(["machineconfig", "patch", "none.yaml", "-p", "machine: {}"]) == 1
    assert "none.yaml: can't be read" in capsys.readouterr().err


def test_validate_lists_all_mistakes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.yaml").write_text("version: v1alpha1\nmachin: {}\nmachine:\n  typ: worker\n  token: 5\n")
    assert run(["validate", "-c", "bad.yaml", "-m", "metal"]) == 1
    error = capsys.readouterr().err
    assert "machin" in error
    assert "typ" in error
    assert "Traceback" not in error
    assert run(["validate", "-c", "bad.yaml", "-m", "moon"]) == Exit.USAGE


def test_keys_and_certificates(folder: Path) -> None:
    assert run(["gen", "ca", "--organization", "demo", "--hours", "10"]) == 0
    assert run(["gen", "key", "--name", "admin"]) == 0
    assert run(["gen", "csr", "--key", "admin.key", "--ip", "10.0.0.2", "--roles", "os:reader"]) == 0
    assert run(["gen", "crt", "--ca", "demo", "--csr", "admin.csr", "--name", "admin"]) == 0
    certificate = parse_certificate((folder / "admin.crt").read_bytes())
    authority = parse_certificate((folder / "demo.crt").read_bytes())
    certificate.verify_directly_issued_by(authority)
    assert [attribute.value for attribute in certificate.subject] == ["os:reader"]
    hours = (certificate.not_valid_after_utc - certificate.not_valid_before_utc).total_seconds() / 3600
    assert round(hours) == 24
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.2"]
    assert len((folder / "demo.sha256").read_text()) == 64
    assert (folder / "admin.key").read_text().startswith("-----BEGIN ED25519 PRIVATE KEY-----")
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


@pytest.mark.parametrize("address", [(), ("--ip", "10.0.0.9")])
def test_keypair_signs_itself(folder: Path, address: tuple[str, ...]) -> None:
    assert run(["gen", "keypair", "--organization", "pair", *address]) == 0
    certificate = parse_certificate((folder / "pair.crt").read_bytes())
    certificate.verify_directly_issued_by(certificate)
    key = parse_key((folder / "pair.key").read_bytes())
    assert certificate.public_key() == key.public_key()
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc == timedelta(hours=24)
    if address:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.9"]


def test_several_files_are_written_or_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pair.key").write_text("mine")
    assert run(["gen", "keypair", "--organization", "pair"]) == 1
    assert 'file "pair.key" already exists, use --force to overwrite' in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["pair.key"]


def test_request_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["gen", "key", "--name", "admin"])
    assert run(["gen", "csr", "--key", "admin.key"]) == Exit.USAGE
    assert "ip" in capsys.readouterr().err
    assert (
        run(["gen", "csr", "--key", "admin.key", "--ip", "10.0.0.2", "--roles", "os:admin,bogus"])
        == Exit.USAGE
    )
    assert "unknown roles: bogus" in capsys.readouterr().err
    assert not (folder / "admin.csr").exists()


def test_secrets_to_the_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gen", "secrets", "-o", "-"]) == 0
    assert SecretsBundle.parse(capsys.readouterr().out)
    assert not list(folder.iterdir())


def test_secrets_come_back_from_a_config(folder: Path, secrets: str) -> None:
    run(
        [
            "gen",
            "config",
            "demo",
            "https://10.0.0.2",
            "--with-secrets",
            secrets,
            "-t",
            "controlplane",
            "-o",
            "c.yaml",
        ]
    )
    assert run(["gen", "secrets", "--from-controlplane-config", "c.yaml", "-o", "again.yaml"]) == 0
    assert SecretsBundle.parse((folder / "again.yaml").read_text()) == SecretsBundle.parse(
        Path(secrets).read_text()
    )


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["demo", "https://x", "-t", ""], "at least one output type must be specified"),
        (["demo", "https://x", "-t", "worker,moon"], 'invalid output type: "moon"'),
        (["demo", "https://x", "--kubernetes-version", ""], '--kubernetes-version: "" is not a version'),
        (["demo", "https://x", "--talos-version", "new"], '"new" is no version of Talos'),
    ],
)
def test_config_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    assert run(["gen", "config", *argv]) == Exit.USAGE
    assert message in capsys.readouterr().err
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("endpoint", "remedy"),
    [
        ("192.168.0.1", "https://192.168.0.1:6443"),
        ("192.168.0.1:2000", "https://192.168.0.1:2000"),
        ("http://192.168.0.1", "https://192.168.0.1:6443"),
    ],
)
def test_an_endpoint_is_a_url(
    folder: Path, capsys: pytest.CaptureFixture[str], endpoint: str, remedy: str
) -> None:
    assert run(["gen", "config", "demo", endpoint]) == Exit.FAILED
    assert f'try: "{remedy}"' in capsys.readouterr().err
    assert not list(folder.iterdir())


def test_old_name_of_the_folders_flag(folder: Path, secrets: str) -> None:
    argv = ["gen", "config", "demo", "https://x", "--with-secrets", secrets, "-t", "worker"]
    assert run([*argv, "--output-dir", "old"]) == 0
    assert [path.name for path in (folder / "old").iterdir()] == ["worker.yaml"]
    assert run([*argv, "-o", "old", "--force"]) == 1
