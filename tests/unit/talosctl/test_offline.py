"""Commands that call no node: manifests, keys for Secure Boot, images of Kubernetes."""

import stat
import struct
import uuid
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from talos.pki.keys import KeyType, public_key_to_pem
from talos.system.efi_signatures import SHA256, X509, parse_update
from talos.talosctl.cli.exit import Exit
from talos.talosctl.main import run

MANIFESTS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
    template:
        spec:
            initContainers: [{name: first}]
            containers:
                - name: main
                  volumeMounts: [{name: data, mountPath: /data}]
            volumes: [{name: data, emptyDir: {}}]
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: job}]}}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
"""
MOUNT = {"name": "talos-secrets", "mountPath": "/var/run/secrets/talos.dev"}


def injected(path: Path, capsys: pytest.CaptureFixture[str], *argv: str) -> list[dict[str, object]]:
    assert run(["inject", "serviceaccount", "-f", str(path), *argv]) == 0
    text = capsys.readouterr().out
    path.write_text(text)
    return [document for document in yaml.safe_load_all(text) if document]


def test_inject_service_account(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "manifests.yaml"
    path.write_text(MANIFESTS)
    documents = injected(path, capsys, "--roles", "os:admin,os:etcd:backup")
    assert [document["kind"] for document in documents] == [
        "Deployment",
        "ServiceAccount",
        "CronJob",
        "ServiceAccount",
        "ConfigMap",
    ]
    pod = documents[0]["spec"]["template"]["spec"]  # type: ignore[index]
    assert pod["volumes"] == [
        {"name": "data", "emptyDir": {}},
        {"name": "talos-secrets", "secret": {"secretName": "web-talos-secrets"}},
    ]
    assert pod["initContainers"][0]["volumeMounts"] == [MOUNT]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "data", "mountPath": "/data"}, MOUNT]
    assert documents[1] == {
        "apiVersion": "talos.dev/v1alpha1",
        "kind": "ServiceAccount",
        "metadata": {"name": "web-talos-secrets", "namespace": "shop"},
        "spec": {"roles": ["os:admin", "os:etcd:backup"]},
    }
    assert injected(path, capsys, "--roles", "os:admin,os:etcd:backup") == documents, "twice changes nothing"


def test_inject_into_what_has_no_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "manifests.yaml"
    path.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n")
    assert run(["inject", "tsa", "-f", str(path)]) == 1
    assert capsys.readouterr().err == "error: Pod x: it describes no pods (spec)\n"
    assert run(["inject", "tsa"]) == Exit.USAGE


def test_keys_for_secure_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = Path.cwd()
    monkeypatch.chdir(tmp_path)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def make_key(_kind: KeyType) -> rsa.RSAPrivateKey:
        return key  # making one of 4096 bits takes seconds

    monkeypatch.setattr("talos.pki.authority.make_key", make_key)
    assert run(["gen", "secureboot", "uki", "--common-name", "Ours"]) == 0
    assert run(["gen", "secureboot", "pcr", "-o", "other"]) == 0
    assert capsys.readouterr().err == (
        "writing _out/uki-signing-cert.pem\nwriting _out/uki-signing-cert.der\n"
        "writing _out/uki-signing-key.pem\n"
        "writing other/pcr-signing-key.pem\n"
    )
    pem, der = Path("_out/uki-signing-cert.pem").read_bytes(), Path("_out/uki-signing-cert.der").read_bytes()
    certificate = x509.load_pem_x509_certificate(pem)
    assert certificate == x509.load_der_x509_certificate(der)
    assert certificate.subject.rfc4514_string() == "CN=Ours"
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert list(usage.value) == [ExtendedKeyUsageOID.CODE_SIGNING]
    signing = serialization.load_pem_private_key(Path("_out/uki-signing-key.pem").read_bytes(), None)
    assert signing.public_key() == certificate.public_key()
    policy = serialization.load_pem_private_key(Path("other/pcr-signing-key.pem").read_bytes(), None)
    assert isinstance(policy, rsa.RSAPrivateKey)
    assert policy.key_size == 2048
    assert stat.S_IMODE(Path("other/pcr-signing-key.pem").stat().st_mode) == 0o600
    assert run(["gen", "secureboot", "pcr", "-o", "other"]) == 1
    assert "already exists, use --force" in capsys.readouterr().err
    assert run(["gen", "secureboot", "database"]) == 0
    for name in ("db", "KEK", "PK"):
        check_variable(name, Path(f"_out/{name}.auth").read_bytes(), certificate)
    assert run(["gen", "secureboot", "database", "--signing-key", "other/pcr-signing-key.pem", "-f"]) == 1
    assert "does not belong to _out/uki-signing-cert.pem" in capsys.readouterr().err

    Path("pcr.pub").write_bytes(public_key_to_pem(policy))
    argv = ["--key", "other/pcr-signing-key.pem", "--common-name", "Elsewhere", "-o", "elsewhere"]
    assert run(["gen", "secureboot", "uki", *argv]) == Exit.USAGE
    assert "--key, --public-key: come together" in capsys.readouterr().err
    assert run(["gen", "secureboot", "uki", *argv, "--public-key", "pcr.pub"]) == 0
    assert sorted(path.name for path in Path("elsewhere").iterdir()) == [
        "uki-signing-cert.der",
        "uki-signing-cert.pem",
    ]

    assert run(["gen", "secureboot", "update"]) == 1
    assert "name --add CERTIFICATE or --revoke FILE" in capsys.readouterr().err
    program = Path("tests/data/authenticode/signed.efi")
    argv = ["--add", "_out/uki-signing-cert.pem", "--revoke", "_out/uki-signing-cert.pem"]
    assert run(["gen", "secureboot", "update", *argv, "--revoke", str(repository / program)]) == 0
    check_variable("db", Path("_out/db-update.auth").read_bytes(), certificate, 0x67)
    revoked = parse_update(Path("_out/dbx-update.auth").read_bytes())
    assert [(entry.kind, len(entry.data)) for entry in revoked] == [(X509, len(der)), (SHA256, 32)]
    for argv, reason in (
        (["--add", str(repository / program)], "signed.efi: no certificate"),
        (["--revoke", "none.efi"], "none.efi: can't be read"),
        (["--revoke", "broken.efi"], "broken.efi: it has 4 bytes"),
    ):
        Path("broken.efi").write_bytes(b"MZ\0\0")
        assert run(["gen", "secureboot", "update", "-o", "failed", *argv]) == 1
        assert reason in capsys.readouterr().err


def check_variable(name: str, content: bytes, certificate: x509.Certificate, attributes: int = 0x27) -> None:
    """What firmware checks of a variable that replaces another, or is added to it (UEFI 2.10, 8.2.2)."""
    time, size = content[:16], int.from_bytes(content[16:20], "little")
    assert time[7:] == bytes(9), "only date and time"
    assert content[20:24] == b"\x00\x02\xf1\x0e"
    assert content[24:40] == uuid.UUID("4aafd29d-68df-49ee-8aa9-347d375665a7").bytes_le
    signed, value = content[40 : 16 + size], content[16 + size :]
    der = certificate.public_bytes(serialization.Encoding.DER)
    assert value[:16] == uuid.UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072").bytes_le
    assert struct.unpack("<III", value[16:28]) == (len(value), 0, 16 + len(der))
    assert value[44:] == der
    assert signed[0] == 0x30
    assert der in signed, "the signer's certificate comes with the signature"
    vendor = (
        "d719b2cb-3d3a-4596-a3bc-dad00e67656f" if name == "db" else "8be4df61-93ca-11d2-aa0d-00e098032b8c"
    )
    text = (
        name.encode("utf-16-le") + uuid.UUID(vendor).bytes_le + struct.pack("<I", attributes) + time + value
    )
    public = certificate.public_key()
    assert isinstance(public, rsa.RSAPublicKey)
    public.verify(signed[-public.key_size // 8 :], text, padding.PKCS1v15(), hashes.SHA256())


def test_images_of_kubernetes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["image", "k8s-bundle", "--k8s-version", "1.36.2"]) == 0
    images = capsys.readouterr().out.split()
    assert "registry.k8s.io/kube-apiserver:v1.36.2" in images
    assert "ghcr.io/siderolabs/kubelet:v1.36.2" in images
    assert "registry.k8s.io/etcd:v3.7.1" in images
    assert len(images) == 10
    assert run(["image", "k8s-bundle", "--etcd-version", "three"]) == Exit.USAGE
    assert '--etcd-version: "three" is not a version' in capsys.readouterr().err
