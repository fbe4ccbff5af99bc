"""Files that the main document has written at each boot."""

from pathlib import Path

import pytest

from talos.config.documents.v1alpha1.machine import MachineFile
from talos.config.values import FileMode
from talos.machined.boot.user_files import write_user_files
from talos.testing.mounts import MemoryMounts


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("var", "etc/kubernetes", "run"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "etc/nfs.conf").write_text("image")
    return tmp_path


def make_file(path: str, op: str, content: str = "new", mode: int = 0o640) -> MachineFile:
    return MachineFile(path=path, op=op, content=content, permissions=FileMode(mode))


def test_a_file_below_var_is_written_in_place(root: Path) -> None:
    mounts = MemoryMounts()
    assert write_user_files([make_file("/var/a/b", "create")], mounts, root=root) == []
    assert (root / "var/a/b").read_text() == "new"
    assert (root / "var/a/b").stat().st_mode & 0o7777 == 0o640
    assert mounts.list() == []
    assert write_user_files([make_file("/var/a/b", "create", "newer")], mounts, root=root) == []
    assert (root / "var/a/b").read_text() == "newer"


def test_what_is_appended_is_there_once_after_two_boots(root: Path) -> None:
    (root / "var/log.conf").write_text("old")
    for _ in range(2):
        assert write_user_files([make_file("/var/log.conf", "append")], MemoryMounts(), root=root) == []
    assert (root / "var/log.conf").read_text() == "old\nnew"


@pytest.mark.parametrize(("op", "expected"), [("overwrite", "new"), ("append", "image\nnew")])
def test_a_file_of_the_image_is_covered(op: str, expected: str, root: Path) -> None:
    mounts = MemoryMounts()
    assert write_user_files([make_file("/etc/nfs.conf", op)], mounts, root=root) == []
    (mount,) = mounts.list()
    assert (mount.source, mount.target) == (str(root / "var/etc/nfs.conf"), str(root / "etc/nfs.conf"))
    assert mount.options == ("bind", "ro")
    assert (root / "var/etc/nfs.conf").read_text() == expected
    assert (root / "etc/nfs.conf").read_text() == "image"


def test_a_manifest_is_written_as_it_is(root: Path) -> None:
    file = make_file("/etc/kubernetes/manifests/a.yaml", "create")
    assert write_user_files([file], MemoryMounts(), root=root) == []
    assert (root / "etc/kubernetes/manifests/a.yaml").read_text() == "new"


def test_each_that_is_not_written_is_named_and_the_rest_is_written(root: Path) -> None:
    (root / "var/link").symlink_to(root / "etc")
    (root / "var/folder").mkdir()
    files = [
        make_file("/etc/new", "create"),
        make_file("/etc/missing", "overwrite"),
        make_file("/var/folder", "append"),
        make_file("/var/link/x", "create"),
        make_file("/var/../etc/x", "create"),
        make_file("/var/good", "create"),
    ]
    problems = write_user_files(files, MemoryMounts(), root=root)
    assert [problem.partition(": ")[0] for problem in problems] == [f"machine.files[{n}]" for n in range(5)]
    assert 'create operation not allowed outside of /var: "/etc/new"' in problems[0]
    assert 'file must exist: "/etc/missing"' in problems[1]
    assert "invalid mode: drwx" in problems[2]
    assert "link to another place" in problems[3]
    assert (root / "var/good").read_text() == "new"
    assert sorted(path.name for path in (root / "etc").iterdir()) == ["kubernetes", "nfs.conf"]
