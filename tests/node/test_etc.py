"""Files of the config in /etc, and the authorities that the node trusts."""

from pathlib import Path

import pytest
from tests.harness.cluster import Cluster, eventually
from tests.node.test_rest import patch

from talos.pki.authority import CertificateAuthority
from talos.pki.keys import KeyType

ROOTS = "/etc/ssl/certs/ca-certificates.crt"
CONFIG = """
apiVersion: v1alpha1
kind: EtcFileConfig
name: multipath/multipath.conf
contents: "defaults {}"
mode: 0o600
---
apiVersion: v1alpha1
kind: UdevRulesConfig
rules: ['KERNEL=="vda", SYMLINK+="ours"']
---
apiVersion: v1alpha1
kind: TrustedRootsConfig
name: ours
certificates: |
"""
NO_CONFIG = """
apiVersion: v1alpha1
kind: EtcFileConfig
name: multipath/multipath.conf
$patch: delete
---
apiVersion: v1alpha1
kind: UdevRulesConfig
$patch: delete
---
apiVersion: v1alpha1
kind: TrustedRootsConfig
name: ours
$patch: delete
"""


@pytest.fixture
def authority() -> str:
    return CertificateAuthority.generate(KeyType.ED25519, organizations=["ours"]).crt.decode()


def test_files_and_authorities_appear_and_go(cluster: Cluster, tmp_path: Path, authority: str) -> None:
    before = cluster.talosctl("read", ROOTS).stdout
    assert "Bundle of CA Root Certificates" in before[:100]
    assert cluster.talosctl("read", ROOTS.removesuffix(".crt")).stdout == before
    indented = "".join(f"  {line}\n" for line in authority.splitlines())
    patch(cluster, tmp_path, CONFIG + indented)

    def are_there() -> None:
        assert cluster.talosctl("read", "/etc/multipath/multipath.conf").stdout == "defaults {}"
        rules = cluster.talosctl("read", "/usr/lib/udev/rules.d/99-talos.rules").stdout
        assert rules == 'KERNEL=="vda", SYMLINK+="ours"\n'
        found = cluster.talosctl("read", ROOTS).stdout
        assert found.startswith(before)
        assert f"\nours:\n=====\n{authority}" in found
        written = {row["ID"] for row in cluster.rows("get", "etcfilestatuses")}
        assert written >= {"multipath/multipath.conf", "ssl/certs/ca-certificates.crt"}

    eventually("they are there", are_there)
    for name, pids in cluster.processes().items():
        if name in {"timed", "apid", "clusterd", "kubelet"}:
            for pid in pids:  # whatever view of mounts it has
                assert authority in Path(f"/proc/{pid}/root{ROOTS}").read_text(), name
    patch(cluster, tmp_path, NO_CONFIG)

    def are_gone() -> None:
        assert cluster.talosctl("read", "/etc/multipath/multipath.conf", check=False).returncode
        assert cluster.talosctl("read", ROOTS).stdout == before

    eventually("they are gone", are_gone)
