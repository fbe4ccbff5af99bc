"""Archives of nodes, which may be made to harm, and that of a support bundle."""

import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from google.protobuf.empty_pb2 import Empty
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.common.common_pb2 import Data
from talos.api.cosi.state_pb2 import ListRequest
from talos.api.machine import machine_pb2 as machine
from talos.client import collected
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


def set_free(patch: pytest.MonkeyPatch, free: int) -> None:
    """A disk of a GiB that has so many bytes left."""
    found = SimpleNamespace(f_frsize=1, f_blocks=1 << 30, f_bavail=free)

    def statvfs(_: object) -> SimpleNamespace:
        return found

    patch.setattr(os, "statvfs", statvfs)


def test_what_a_node_sends_leaves_room_on_the_disk(
    talosctl: Client, node: FakeNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_free(monkeypatch, 60 << 20)
    node.on(MACHINE + "Copy", machine.CopyRequest, [Data(bytes=b"x")], stream=True)
    done = talosctl("copy", "-n", "10.0.0.2", "/var", str(tmp_path / "var"))
    assert done.code == 1
    assert "the disk has no room for what the node sends" in done.err
    assert not (tmp_path / "var").exists()


def test_what_is_unpacked_leaves_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_free(monkeypatch, 512 << 20)
    archive = gzip.compress(header("small", 5) + b"small".ljust(512, b"\0") + header("large", 1 << 40))
    with pytest.raises(UserError, match="the disk has no room"):
        unpack(io.BytesIO(archive), tmp_path / "of")
    assert [path.name for path in (tmp_path / "of").iterdir()] == ["small"]


def test_lists_without_an_end_do_not_take_the_memory(
    talosctl: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collected, "MAX_COLLECTED", 1000)
    files = [machine.FileInfo(relative_name=f"file-{number:04}") for number in range(1000)]
    node.on(MACHINE + "List", machine.ListRequest, files, stream=True)
    done = talosctl("list", "-n", "10.0.0.2", "/")
    assert done.code == 1
    assert "the node sends more than 1.0 kB: list fewer folders" in done.err
