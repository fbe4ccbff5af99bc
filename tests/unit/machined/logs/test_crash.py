"""The logs of failed boots."""

from pathlib import Path

from talos.machined.logs.crash import KEPT, MAX_SERVICE, CrashLog
from talos.machined.logs.last_boot import LastBoot
from talos.machined.logs.store import LogStore
from talos.system.logging import Log


def make(lines: list[str], *, has_kernel: bool = True) -> CrashLog:
    log = Log(write=lines.append)
    return CrashLog(logs=LogStore(), log=log, now=lambda: 1763820000.0, has_kernel=has_kernel)


def test_the_ends_of_the_logs_are_kept(tmp_path: Path) -> None:
    (tmp_path / "apid.log").write_bytes(b"begin\n" + b"x" * MAX_SERVICE + b"\nend\n")
    (tmp_path / "etcd.log").write_bytes(b"short\n")
    (tmp_path / "link.log").symlink_to("/etc/shadow")
    (tmp_path / "folder.log").mkdir()
    lines: list[str] = []
    crash = make(lines)
    crash.keep_last(tmp_path)
    assert not (tmp_path / "crash").exists(), "nothing failed"
    crash.reason, crash.last = "kernel panic: no", LastBoot(log=b"[ 1.0] words\n")
    crash.keep_last(tmp_path)
    (folder,) = (tmp_path / "crash").iterdir()
    assert folder.name == "2025-11-22T14-00-00Z"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "reason": b"kernel panic: no\n",
        "kernel.log": b"[ 1.0] words\n",
        "apid.log": b"end\n",
        "etcd.log": b"short\n",
    }


def test_the_oldest_make_room(tmp_path: Path) -> None:
    crash = make([])
    crash.reason = "x"
    for number in range(KEPT + 3):
        crash.now = lambda number=number: 1763820000.0 + number
        crash.keep_last(tmp_path)
    names = sorted(path.name for path in (tmp_path / "crash").iterdir())
    assert names == [f"2025-11-22T14-00-0{number}Z" for number in range(3, KEPT + 3)]


async def test_a_boot_that_is_given_up_keeps_its_own(tmp_path: Path) -> None:
    crash = make([], has_kernel=False)
    crash.logs.append("apid", b"a line\n" * 20000)
    await crash.keep_this(tmp_path, "self-check: no")
    (folder,) = (tmp_path / "crash").iterdir()
    assert (folder / "reason").read_text() == "self-check: no\n"
    assert 0 < len((folder / "apid.log").read_bytes()) <= MAX_SERVICE


def test_a_folder_that_can_not_be_written_is_no_failure(tmp_path: Path) -> None:
    lines: list[str] = []
    crash = make(lines)
    crash.reason = "x"
    crash.keep_last(tmp_path / "none")
    assert "are not kept" in "".join(lines)


def test_links_that_pods_left_are_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    for number in range(KEPT + 3):
        (other / f"member-{number}").mkdir(parents=True)
    log = tmp_path / "log"
    log.mkdir()
    (log / "crash").symlink_to(other)
    crash = make([])
    crash.reason = "x"
    crash.keep_last(log)
    assert len(list(other.iterdir())) == KEPT + 3
    (folder,) = (log / "crash").iterdir()
    (folder / "reason").unlink()
    (folder / "reason").symlink_to(other / "made")
    crash.keep_last(log)
    assert (folder / "reason").read_text() == "x\n"
    assert not (other / "made").exists()


def test_files_of_others_among_the_folders_are_removed_with_the_oldest(tmp_path: Path) -> None:
    for number in range(KEPT):
        (tmp_path / "crash" / f"2000-{number}").mkdir(parents=True)
    (tmp_path / "crash" / "1999").write_text("x")
    (tmp_path / "crash" / "1998").symlink_to(tmp_path)
    crash = make([])
    crash.reason = "x"
    crash.keep_last(tmp_path)
    names = sorted(path.name for path in (tmp_path / "crash").iterdir())
    assert len(names) == KEPT
    assert not {"1998", "1999", "2000-0"} & {*names}
