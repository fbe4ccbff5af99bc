"""The client as one file for any system: TALOSCTL_PYZ, run as on macOS."""

import base64
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from google.protobuf.empty_pb2 import Empty
from tests.unit.talosctl.fake import FakeNode, Result

from talos.api.common import common_pb2
from talos.api.machine import machine_pb2
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType

PYZ = os.environ["TALOSCTL_PYZ"]
MACOS = Path(__file__).with_name("macos.py")
COMPILED = ("cryptography", "_cffi_backend", "pyrage")
PROBE = """
import sys
sys.path[:0] = sys.argv[1].split(":")
from macos import hide
hide()
from talos.talosctl.cli.command import Command, Lazy
from talos.talosctl.tree import ROOT

def load(row):
    if isinstance(row, Lazy) and row.for_linux:
        return
    command = row.load() if isinstance(row, Lazy) else row
    print(command.name)
    for found in command.commands:
        load(found)

load(ROOT)
"""


class Pyz:
    """The file with an interpreter that has what it requires and no other package."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.site = folder / "site"
        self.site.mkdir()
        for name in COMPILED:
            place = Path(importlib.import_module(name).__file__ or "")
            source = place.parent if place.name == "__init__.py" else place
            (self.site / source.name).symlink_to(source)

    def run(self, *argv: str) -> Result:
        """Run the client; HOME is the working directory."""
        return self.start(str(MACOS), PYZ, *argv)

    def start(self, *argv: str, site: Path | None = None, **variables: str) -> Result:
        """Run the interpreter."""
        environment = {"HOME": str(self.home), "PYTHONPATH": str(site or self.site), **variables}
        command = [sys.executable, "-S", "-B", *argv]
        result = subprocess.run(
            command, cwd=self.home, env=environment, capture_output=True, text=True, check=False
        )
        return Result(result.returncode, result.stdout, result.stderr)


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Pyz:
    return Pyz(tmp_path_factory.mktemp("pyz"))


@pytest.fixture
def node(tmp_path: Path, pyz: Pyz) -> Iterator[FakeNode]:
    """A node, and the talosconfig of its administrator."""
    authority = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"])
    server = authority.issue(common_name="node", ips=["127.0.0.1"], usages=Usage.SERVER)
    admin = authority.issue(organizations=["os:admin"], usages=Usage.CLIENT, key_type=KeyType.ED25519)
    for node in FakeNode(server_pair=server, ca=authority.crt).serve(tmp_path):
        pems = {"ca": authority.crt, "crt": admin.crt, "key": admin.key}
        context = {"endpoints": [f"127.0.0.1:{node.port}"], "nodes": ["10.0.0.2"]}
        context |= {name: base64.b64encode(pem).decode() for name, pem in pems.items()}
        file = pyz.home / "talosconfig"
        file.write_text(yaml.safe_dump({"context": "test", "contexts": {"test": context}}))
        yield node


def test_it_starts(pyz: Pyz) -> None:
    version = pyz.run("version", "--client")
    assert (version.code, version.err) == (0, "")
    assert "darwin/arm64" in version.out
    assert "Available Commands" in pyz.run("--help").out
    assert len(list((pyz.home / ".cache/talosctl").iterdir())) == 1


def test_every_command_is_imported(pyz: Pyz) -> None:
    pyz.run("--help")
    (root,) = (pyz.home / ".cache/talosctl").iterdir()
    probe = pyz.home / "probe.py"
    probe.write_text(PROBE)
    result = pyz.start(str(probe), f"{root}/program:{root}/site:{MACOS.parent}")
    assert (result.code, result.err) == (0, "")
    assert {"apply-config", "cluster", "cache-serve", "dashboard", "upgrade-k8s"} <= set(result.out.split())


def test_configs_are_generated_and_checked(pyz: Pyz) -> None:
    for argv in (
        ("gen", "secrets", "-o", "secrets.yaml"),
        ("gen", "config", "demo", "https://10.0.0.1:6443", "--with-secrets", "secrets.yaml", "-o", "out"),
        ("validate", "--mode", "metal", "--config", "out/controlplane.yaml"),
        ("config", "info", "--talosconfig", "out/talosconfig"),
    ):
        result = pyz.run(*argv)
        assert result.code == 0, result.err


def test_calls_reach_a_node(pyz: Pyz, node: FakeNode) -> None:
    metadata = common_pb2.Metadata(hostname="10.0.0.2")
    version = machine_pb2.VersionInfo(tag="v1.15.0", os="linux", arch="amd64")
    versions = machine_pb2.VersionResponse(messages=[machine_pb2.Version(metadata=metadata, version=version)])
    service = machine_pb2.ServiceInfo(id="etcd", state="Running")
    services = machine_pb2.ServiceListResponse(
        messages=[machine_pb2.ServiceList(metadata=metadata, services=[service])]
    )
    node.on("/machine.MachineService/Version", Empty, versions)
    node.on("/machine.MachineService/ServiceList", Empty, services)
    for command, shown in (("version", "v1.15.0"), ("services", "etcd")):
        result = pyz.run(command, "--talosconfig", "talosconfig")
        assert result.code == 0, result.err
        assert shown in result.out


def test_clusters_are_for_linux(pyz: Pyz) -> None:
    result = pyz.run("cluster", "create", "--workers", "1")
    assert (result.code, result.err) == (1, "error: create: works on Linux only, and this is Darwin\n")
    assert "Create a local cluster" in pyz.run("cluster", "--help").out


def test_packages_that_are_missing_are_named(pyz: Pyz, tmp_path: Path) -> None:
    result = pyz.start(PYZ, "version", "--client", site=tmp_path)
    assert result.code == 1
    assert result.err.startswith("talosctl: packages are missing: python3.13 -m pip install cryptography==")
    assert result.err.count("\n") == 1


def test_a_cache_that_cannot_be_written_is_named(pyz: Pyz) -> None:
    result = pyz.start(PYZ, "version", "--client", XDG_CACHE_HOME="/dev/null")
    assert result.code == 1
    assert "set XDG_CACHE_HOME" in result.err
    assert result.err.count("\n") == 1
