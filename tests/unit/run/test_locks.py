"""Which locks a run has tested."""

import json
from pathlib import Path

import pytest
from tests.run import locks
from tests.run.locks import compare, describe_locks, parse_versions
from tests.run.process import REPOSITORY


def debian(**versions: str) -> str:
    return json.dumps({"packages": {name: {"version": version} for name, version in versions.items()}})


def test_versions_of_each_kind_of_lock() -> None:
    assert parse_versions("debian.json", debian(openssl="3.5.1-1")) == {"openssl": "3.5.1-1"}
    assert parse_versions("wheels-image.txt", "# head\ntrio==0.30.0 --hash=sha256:0  # trio.whl\n") == {
        "trio": "0.30.0"
    }
    modules = json.dumps({"modules": {"k8s.io/api@v0.37.1": {}, "k8s.io/api@v0.36.4": {}}})
    assert parse_versions("go.json", modules) == {"k8s.io/api": "v0.36.4, v0.37.1"}


@pytest.mark.parametrize("path", sorted((REPOSITORY / "pkgs/locks").glob("*.*")), ids=lambda path: path.name)
def test_locks_of_this_repository_are_read(path: Path) -> None:
    assert parse_versions(path.name, path.read_text(encoding="utf-8"))


def test_what_differs_is_reported_once_and_by_version() -> None:
    before, after = debian(a="1", b="1", gone="1"), debian(a="1", b="2", come="1")
    assert list(compare("debian.json", before, after)) == [
        ("b", "1", "2"),
        ("come", "-", "1"),
        ("gone", "1", "-"),
    ]


def make_git(monkeypatch: pytest.MonkeyPatch, committed: str) -> None:
    """A repository whose commit has another text of one lock."""

    def answer(repository: Path, *arguments: str) -> str:
        found = {
            "rev-parse": "abc1234\n",
            "diff": "pkgs/locks/debian.json\n" if committed else "",
            "show": committed,
        }
        return found[arguments[0]]

    monkeypatch.setattr(locks, "_git", answer)


def test_committed_locks_are_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_git(monkeypatch, "")
    assert describe_locks(tmp_path) == ["locks: those of commit abc1234"]


def test_newer_locks_are_a_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_git(monkeypatch, debian(libc6="2.41-12"))
    (tmp_path / "pkgs/locks").mkdir(parents=True)
    (tmp_path / "pkgs/locks/debian.json").write_text(debian(libc6="2.41-13"), encoding="utf-8")
    title, row, verdict = describe_locks(tmp_path)
    assert title.split() == ["lock", "abc1234", "tested"]
    assert row.split() == ["libc6", "2.41-12", "2.41-13"]
    assert verdict == "locks: NOT those of commit abc1234: 1 differ, the table above has them"


def test_without_a_commit_nothing_is_claimed(tmp_path: Path) -> None:
    assert describe_locks(tmp_path) == ["locks: there is no commit to compare them with"]
