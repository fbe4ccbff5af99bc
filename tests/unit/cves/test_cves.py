"""The locks are compared with feeds: versions by each rule, the kernel by its options."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from advisories import Feed, FeedError
from cves import AFFECTED, NOT_AFFECTED, UNKNOWN, find_all, format_table, make_vex
from kbuild import Kernel
from ordering import debian_order, go_order, python_order
from shipped import Component, find_components

REPOSITORY = Path(__file__).parents[3]
LINUX = Component(ecosystem="Debian", name="linux", version="6.12.43-1", places="kernel-source")
MAKEFILES = {
    "fs": "obj-$(CONFIG_BTRFS_FS)\t+= btrfs/\nobj-$(CONFIG_PROC_FS) += proc/\nobj-y += \\\n  open.o\n",
    "fs/proc": "proc-y := inode.o\nproc-$(CONFIG_NET) += proc_net.o\n"
    "obj-$(CONFIG_KCORE) += kcore.o\nobj-$(subst m,y,$(CONFIG_ODD)) += odd.o\n"
    "obj-$(CONFIG_OFF) += odd.o\n",
}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.0~rc1-1", "1.0-1"),
        ("1.0-1", "1.0-1+deb13u1"),
        ("1.0-1+deb13u1", "1.0-2"),
        ("2.9-1", "2.10-1"),
        ("9.9-1", "1:0.1-1"),
        ("1.0", "1.0+b"),
        ("1.0a", "1.0+"),
        ("1.0~~", "1.0~"),
        ("6.12.9-1", "6.12.43-1"),
        ("1.0-1~bpo12", "1.0-1"),
    ],
)
def test_debian_versions(older: str, newer: str) -> None:
    assert debian_order(older) < debian_order(newer)
    assert not debian_order(newer) < debian_order(older)


def test_debian_versions_that_are_equal() -> None:
    assert debian_order("0:1.0-0") == debian_order("1.0")
    assert debian_order("1.01-1") == debian_order("1.1-1")


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.2.3-rc.1", "1.2.3"),
        ("1.2.3-rc.2", "1.2.3-rc.10"),
        ("0.0.0-20240101000000-abcdef123456", "0.0.0-20250101000000-abcdef123456"),
        ("go1.9", "1.24.3"),
        ("1.9.0", "v1.10.0"),
    ],
)
def test_go_versions(older: str, newer: str) -> None:
    assert go_order(older) < go_order(newer)


def test_python_versions() -> None:
    assert python_order("2.0rc1") < python_order("2.0") < python_order("2.0.post1")


@pytest.mark.parametrize("order", [debian_order, go_order, python_order])
def test_what_is_no_version_is_an_error(order: Any) -> None:
    for text in ("", "ä", "1_", "9" * 10_000, "$(id)"):
        with pytest.raises(ValueError, match=r"version|invalid|limit|Invalid"):
            order(text)


def osv(**changes: Any) -> dict[str, Any]:
    """A record of OSV."""
    affected = {
        "package": {"ecosystem": "Go", "name": "example.org/x"},
        "ranges": [
            {"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": "1.2.0"}, {"introduced": "1.3.0"}]}
        ],
    }
    return {
        "id": "GO-2026-1",
        "modified": "2026-01-01T00:00:00Z",
        "aliases": ["CVE-2026-1"],
        "affected": [affected],
        **changes,
    }


def read(tmp_path: Path, document: Any, name: str = "feed.json") -> Feed:
    """A feed of one file."""
    path = tmp_path / name
    path.write_text(json.dumps(document))
    feed = Feed(release="13")
    feed.read(path)
    return feed


@pytest.mark.parametrize(
    ("version", "fixed"), [("1.1.9", "1.2.0"), ("1.2.0", None), ("1.2.9", None), ("1.3.0", "")]
)
def test_osv(tmp_path: Path, version: str, fixed: str | None) -> None:
    component = Component(ecosystem="Go", name="example.org/x", version=version, places="etcd")
    found = find_all([component], read(tmp_path, osv()), None)
    assert [(each.id, each.status, each.fixed) for each in found] == (
        [] if fixed is None else [("CVE-2026-1", AFFECTED, fixed)]
    )


def test_osv_that_was_withdrawn(tmp_path: Path) -> None:
    assert not read(tmp_path, osv(withdrawn="2026-02-01T00:00:00Z")).advisories


def test_osv_of_another_release_of_debian(tmp_path: Path) -> None:
    affected = [
        {"package": {"ecosystem": f"Debian:{release}", "name": "openssl"}, "versions": ["3"]}
        for release in ("12", "13")
    ]
    assert len(read(tmp_path, osv(affected=affected)).advisories["Debian", "openssl"]) == 1


def tracker(**releases: Any) -> dict[str, Any]:
    """A document of Debian's tracker."""
    issue = {"description": "a: b", "releases": releases}
    return {"linux": {"CVE-2026-7": issue}}


@pytest.mark.parametrize(
    ("state", "fixed"),
    [
        ({"status": "open", "urgency": "high"}, ""),
        ({"status": "resolved", "fixed_version": "6.12.50-1"}, "6.12.50-1"),
        ({"status": "resolved", "fixed_version": "6.12.43-1"}, None),
        ({"status": "resolved", "fixed_version": "0"}, None),
    ],
)
def test_tracker(tmp_path: Path, state: dict[str, str], fixed: str | None) -> None:
    found = find_all([LINUX], read(tmp_path, tracker(trixie=state, bookworm={"status": "open"})), None)
    assert [each.fixed for each in found] == ([] if fixed is None else [fixed])


def make_kernel() -> Kernel:
    """A kernel with PROC_FS, without BTRFS_FS and KCORE."""
    kernel = Kernel(frozenset({"CONFIG_PROC_FS"}))
    for folder, text in MAKEFILES.items():
        kernel.add_makefile(folder, text)
    return kernel


@pytest.mark.parametrize(
    ("file", "excluding"),
    [
        ("fs/btrfs/inode.c", "BTRFS_FS"),
        ("fs/btrfs/deep/er.h", "BTRFS_FS"),
        ("fs/proc/kcore.c", "KCORE"),
        ("fs/proc/proc_net.c", "NET"),
        ("fs/proc/inode.c", ""),
        ("fs/proc/odd.c", ""),
        ("fs/open.c", ""),
        ("include/linux/fs.h", ""),
        ("arch/arm64/mm/fault.c", "arch/arm64"),
        ("arch/x86/mm/fault.c", ""),
        ("../fs/btrfs/inode.c", ""),
        ("/fs/btrfs/inode.c", ""),
        ("x", ""),
    ],
)
def test_what_a_kernel_is_built_without(file: str, excluding: str) -> None:
    assert make_kernel().find_excluding(file) == excluding


@pytest.mark.parametrize(
    ("files", "status"),
    [(["fs/btrfs/a.c"], NOT_AFFECTED), (["fs/btrfs/a.c", "fs/open.c"], AFFECTED), ([], AFFECTED)],
)
def test_options_of_the_kernel_decide(tmp_path: Path, files: list[str], status: str) -> None:
    record = {
        "dataType": "CVE_RECORD",
        "cveMetadata": {"cveId": "CVE-2026-7"},
        "containers": {"cna": {"affected": [{"programFiles": files}]}},
    }
    feed = read(tmp_path, [tracker(trixie={"status": "open"}), record])
    (found,) = find_all([LINUX], feed, make_kernel())
    assert found.status == status
    statements = make_vex([found])["statements"]
    assert [each["impact_statement"] for each in statements] == (
        ["built without BTRFS_FS"] if status == NOT_AFFECTED else []
    )


def test_a_version_that_makes_no_sense_is_unknown(tmp_path: Path) -> None:
    feed = read(tmp_path, tracker(trixie={"status": "resolved", "fixed_version": "$(id)\u001b[2J"}))
    (found,) = find_all([LINUX], feed, None)
    assert found.status == UNKNOWN
    assert "\u001b" not in format_table([found])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        "3",
        '{"affected": 3, "id": "x"}',
        '{"modified": "x", "id": "a b"}',
        '{"modified": "x", "id": "A-1", "affected": [{"package": {"ecosystem": 1, "name": "x"}}]}',
        '{"id": "A-1", "affected": [{"package": {"ecosystem": "Go", "name": "x"}, "ranges": 3}]}',
        '{"id": "A-1", "affected": [{"package": {"ecosystem": "Go", "name": "x"}, "versions": 3}]}',
        '{"linux": []}',
        '{"linux": {"CVE-1": {"releases": {"trixie": "open"}}}}',
        '{"dataType": "CVE_RECORD", "cveMetadata": {"cveId": "../CVE-1"}, "containers": {"cna": {}}}',
        '{"dataType": "CVE_RECORD", "cveMetadata": {"cveId": "C"}, "containers": {"cna": {"affected": 3}}}',
    ],
)
def test_a_broken_feed_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "feed.json"
    path.write_text(text)
    with pytest.raises(FeedError) as caught:
        Feed(release="13").read(path)
    assert str(caught.value).startswith(f"{path}: is n")
    assert "\n" not in str(caught.value)


def test_the_locks_have_what_advisories_name() -> None:
    names = {(each.ecosystem, each.name) for each in find_components(everything=False)}
    assert {("Debian", "linux"), ("Debian", "openssl"), ("Go", "stdlib"), ("PyPI", "trio")} <= names
    assert ("PyPI", "ruff") not in names
    assert ("PyPI", "ruff") in {(each.ecosystem, each.name) for each in find_components(everything=True)}


def test_the_command(tmp_path: Path) -> None:
    feed = tmp_path / "feed"
    feed.mkdir()
    (feed / "tracker.json").write_text(
        json.dumps(
            {
                "openssl": {
                    "CVE-2026-9": {"releases": {"trixie": {"status": "resolved", "fixed_version": "99"}}}
                }
            }
        )
    )
    path = f"{REPOSITORY / 'pkgs/cves'}:{REPOSITORY / 'pkgs/fetch'}"
    argv = [sys.executable, str(REPOSITORY / "pkgs/cves/cves.py"), str(feed)]
    done = subprocess.run(argv, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["ID", "STATUS", "PACKAGE", "VERSION", "FIXED", "SEVERITY", "IN"]
    assert lines[1].startswith("CVE-2026-9   affected   openssl   ")
    assert lines[-1].startswith("1 affected, 1 of them with a fix")
    done = subprocess.run(
        [*argv, str(tmp_path / "none")], env={"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, f"cves: {tmp_path / 'none'}: No such file or directory\n")
