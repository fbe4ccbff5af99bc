"""A kubelet follows its cluster's authorities: it trusts the new ones, and joins anew when it has to."""

from base64 import b64decode
from pathlib import Path

import pytest
import yaml

from talos.api.definitions.secrets_pb2 import KubeletSpec
from talos.config.kubeconfig import Kubeconfig, format_kubeconfig
from talos.machined.services.kubelet import make_bootstrap_kubeconfig
from talos.machined.services.kubelet_credentials import CURRENT, refresh_credentials
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType

OLD, NEW = (CertificateAuthority.generate(KeyType.P256, organizations=["kubernetes"]) for _ in range(2))
SERVER = "https://127.0.0.1:7445"


def make_secret(*authorities: CertificateAuthority) -> KubeletSpec:
    secret = KubeletSpec()
    secret.endpoint.full_path = SERVER
    for authority in authorities:
        secret.accepted_c_as.add(crt=authority.pem.crt)
    return secret


class Kubelet:
    """The files of a kubelet that joined under the old authority."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig, self.pki = folder / "kubeconfig-kubelet", folder / "pki"
        self.pki.mkdir()
        pair = OLD.issue(common_name="system:node:a", organizations=["system:nodes"], usages=Usage.CLIENT)
        (self.pki / "kubelet-client-1.pem").write_bytes(pair.crt + pair.key)
        (self.pki / CURRENT).symlink_to("kubelet-client-1.pem")
        (self.pki / "kubelet.crt").write_text("its own")
        config = Kubeconfig(
            server=SERVER, authority=OLD.pem.crt, cluster="local", user="u", context="c", token="-"
        )
        self.kubeconfig.write_text(format_kubeconfig(config))

    def refresh(self, *authorities: CertificateAuthority) -> None:
        refresh_credentials(self.kubeconfig, self.pki, make_secret(*authorities))

    @property
    def trusts(self) -> bytes:
        document = yaml.safe_load(self.kubeconfig.read_text())
        return b64decode(document["clusters"][0]["cluster"]["certificate-authority-data"])


@pytest.fixture
def kubelet(tmp_path: Path) -> Kubelet:
    return Kubelet(tmp_path)


def test_a_further_authority_is_trusted_and_the_certificate_stays(kubelet: Kubelet) -> None:
    kubelet.refresh(OLD, NEW)
    assert kubelet.trusts == OLD.pem.crt + b"\n" + NEW.pem.crt
    assert kubelet.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert (kubelet.pki / CURRENT).exists()


def test_nothing_is_written_when_nothing_changes(kubelet: Kubelet) -> None:
    kubelet.refresh(OLD)
    before = kubelet.kubeconfig.stat()
    kubelet.refresh(OLD)
    assert kubelet.kubeconfig.stat() == before


def test_the_name_of_the_servers_certificate_comes_and_goes_with_the_config(kubelet: Kubelet) -> None:
    for name in ("kube.example.org", ""):
        secret = make_secret(OLD)
        secret.endpoint_tls_server_name = name
        refresh_credentials(kubelet.kubeconfig, kubelet.pki, secret)
        cluster = yaml.safe_load(kubelet.kubeconfig.read_text())["clusters"][0]["cluster"]
        assert cluster["server"] == SERVER
        assert cluster.get("tls-server-name", "") == name
        first = yaml.safe_load(make_bootstrap_kubeconfig(secret))["clusters"][0]["cluster"]
        assert first.get("tls-server-name", "") == name


def test_it_joins_anew_when_another_authority_issues(kubelet: Kubelet) -> None:
    kubelet.refresh(NEW, OLD)
    assert not kubelet.kubeconfig.exists()
    assert [path.name for path in kubelet.pki.iterdir()] == ["kubelet.crt"]
    kubelet.refresh(NEW, OLD)  # it has not joined yet


@pytest.mark.parametrize("content", ["", "a: [", "clusters: []", "clusters: [{cluster: 1}]"])
def test_a_damaged_file_is_made_anew(kubelet: Kubelet, content: str) -> None:
    kubelet.kubeconfig.write_text(content)
    kubelet.refresh(OLD)
    assert not kubelet.kubeconfig.exists()


def test_a_damaged_certificate_is_of_no_node(kubelet: Kubelet) -> None:
    (kubelet.pki / "kubelet-client-1.pem").write_text("damaged")
    kubelet.refresh(OLD)
    assert not (kubelet.pki / CURRENT).is_symlink()


@pytest.mark.parametrize("target", ["/dev/zero", "../big", "gone"])
def test_a_link_to_anything_else_is_not_read(kubelet: Kubelet, target: str) -> None:
    with (kubelet.pki.parent / "big").open("wb") as big:
        big.truncate(1 << 40)
    (kubelet.pki / CURRENT).unlink()
    (kubelet.pki / CURRENT).symlink_to(target)
    kubelet.refresh(OLD)
    assert kubelet.kubeconfig.exists()
