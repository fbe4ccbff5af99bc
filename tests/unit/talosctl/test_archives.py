"""Archives of nodes, which may be made to harm, and that of a support bundle."""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from google.protobuf.empty_pb2 import Empty
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.cosi.state_pb2 import ListRequest
from talos.api.machine import machine_pb2 as machine
from talos.system.errors import UserError
from talos.talosctl.client.archive import unpack

MACHINE = "/machine.MachineService/"


def header(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, target: str = "") -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.type, member.linkname = size, kind, target
    return member.tobuf(tarfile.GNU_FORMAT)


LONG_NAME = header("", 1, tarfile.GNUTYPE_LONGNAME) + b"a".ljust(512, b"\0")


@pytest.mark.parametrize(
    "headers",
    [
        LONG_NAME * 3000,
        header("", 1 << 40, tarfile.GNUTYPE_LONGNAME),
        header("", 16, tarfile.XHDTYPE) + b"16 path=a\0bcd/e\n".ljust(512, b"\0") + header("a"),
        header("", 13, tarfile.XHDTYPE) + b"13 mtime=nan\n".ljust(512, b"\0") + header("a"),
        header("a", kind=tarfile.LNKTYPE, target="a"),
        header("a", kind=tarfile.FIFOTYPE),
        header("a", kind=tarfile.SYMTYPE, target="../.."),
        header("../a"),
    ],
)
def test_archives_that_are_made_to_harm_are_refused(tmp_path: Path, headers: bytes) -> None:
    with pytest.raises(UserError, match="the node's archive"):
        unpack(io.BytesIO(gzip.compress(headers + bytes(1024))), tmp_path / "of" / "x")
    assert [path.name for path in (tmp_path / "of").iterdir()] == ["x"]


def test_a_bundle_is_unpacked_into_its_folder(talosctl: Client, node: FakeNode, tmp_path: Path) -> None:
    services = [machine.ServiceInfo(id=name) for name in ("../../../../.bashrc", "/etc/x", "a\\..\\b", "...")]
    reply = machine.ServiceListResponse(messages=[machine.ServiceList(services=services)])
    node.on(MACHINE + "ServiceList", Empty, reply)
    node.on(MACHINE + "LogsContainers", Empty, machine.LogsContainersResponse())
    node.on("/cosi.resource.State/List", ListRequest, [], stream=True)
    path = tmp_path / "s.zip"
    assert talosctl("support", "-n", "10.0.0.2", "-O", str(path)).code == 0
    with zipfile.ZipFile(path) as bundle:
        names = [name for name in bundle.namelist() if name.endswith(".state")]
    folder = "10.0.0.2/service-logs"
    assert names == [
        f"{folder}/_/_/_/_/.bashrc.state",
        f"{folder}/_/etc/x.state",
        f"{folder}/a_.._b.state",
        f"{folder}/....state",
    ]
