"""Files in /etc."""

from pathlib import Path

from talos.machined.node.etc_files import EtcFiles
from talos.testing.mounts import MemoryMounts


def test_etc_files_are_bound_once(tmp_path: Path) -> None:
    mounts = MemoryMounts()
    files = EtcFiles(mounts, tmp_path / "generated", Path("/etc"))
    files.write("hostname", "a-long-name\n")
    files.write("hostname", "b\n")
    assert (tmp_path / "generated/hostname").read_text() == "b\n"
    assert [(mount.target, mount.options) for mount in mounts.list()] == [("/etc/hostname", ("bind", "ro"))]
