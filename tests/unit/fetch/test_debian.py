"""apt's output is parsed into entries of the lock, with what a fetch without apt needs."""

import time

import pytest
from archive import DATE, SECURITY, archive_of, find_archives, parse_archive, snapshot_uri
from debian import is_kept, parse_uris
from locks import packages_of, read_debian, read_roots
from report import FetchError

HASH = "c" * 64
ARCHIVES = {
    "debian": parse_archive("http://mirror/debian"),
    "debian-security": parse_archive("http://mirror/debian-security"),
}


def line(path: str, file: str) -> str:
    return f"'http://mirror/{path}/{file}' {file} 4711 SHA256:{HASH}\n"


def test_a_line_of_print_uris() -> None:
    text = line("debian/pool/f", "libfoo1_1%3a2.0_amd64.deb")
    assert parse_uris(text, {}, ARCHIVES)["libfoo1"] == {
        "version": "1:2.0",
        "arch": "amd64",
        "suite": "trixie",
        "sha256": HASH,
        "file": "libfoo1_1%3a2.0_amd64.deb",
        "path": "pool/f/libfoo1_1:2.0_amd64.deb",
        "size": 4711,
    }


def test_a_file_is_named_as_apt_downloads_it() -> None:
    found = parse_uris(line("debian/pool/f", "foo_1%3a2%7ertm_amd64.deb"), {}, ARCHIVES)
    assert found["foo"]["file"] == "foo_1%3a2~rtm_amd64.deb"


def test_a_package_of_another_suite_is_locked_as_such() -> None:
    found = parse_uris(line("debian/pool", "tool_1_all.deb"), {"tool": "trixie-backports"}, ARCHIVES)
    assert (found["tool"]["suite"], found["tool"]["path"]) == ("trixie-backports", "pool/tool_1_all.deb")


def test_a_security_update_is_locked_with_its_archive() -> None:
    found = parse_uris(line("debian-security/pool/updates", "tool_2_all.deb"), {}, ARCHIVES)
    assert found["tool"]["suite"] == "trixie-security"
    assert found["tool"]["path"] == "pool/updates/tool_2_all.deb"
    assert archive_of(found["tool"]["suite"]) == SECURITY


def test_other_lines_are_passed_over() -> None:
    assert parse_uris("Reading package lists...\n", {}, ARCHIVES) == {}


def test_a_root_leaves_out_what_it_names() -> None:
    assert is_kept("tool", {"packages": ["tool"], "alone": True})
    assert not is_kept("libfoo1", {"packages": ["tool"], "alone": True})
    assert not is_kept("debconf", {"packages": ["tool"], "without": ["debconf"]})


def test_every_locked_package_can_be_had_without_apt() -> None:
    lock = read_debian()
    for name in packages_of(lock, read_roots()["debian"]["roots"]):
        entry = lock["packages"][name]
        assert entry["path"].startswith("pool/"), name
        assert entry["path"].endswith(f"_{entry['arch']}.deb"), name
        assert entry["size"] > 0, name


def test_a_mirror_of_the_environment_may_have_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBIAN_MIRROR", "[trusted=yes] http://here/debian/")
    monkeypatch.delenv("DEBIAN_SECURITY_MIRROR", raising=False)
    monkeypatch.setattr("archive.has_apt", lambda: False)
    (found,) = find_archives().values()
    assert found.source("trixie", "main") == "deb [trusted=yes] http://here/debian trixie main\n"


def test_without_apt_and_mirror_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEBIAN_MIRROR", raising=False)
    monkeypatch.setattr("archive.has_apt", lambda: False)
    with pytest.raises(FetchError, match="set DEBIAN_MIRROR=<archive URI>"):
        find_archives()


def test_a_snapshot_has_archive_and_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBIAN_SNAPSHOT", "http://then/{archive}/{date}/")
    date = read_debian()["snapshot"]
    time.strptime(date, DATE)
    assert snapshot_uri("trixie-security", date) == f"http://then/debian-security/{date}"
    monkeypatch.setenv("DEBIAN_SNAPSHOT", "http://then/{day}")
    with pytest.raises(
        FetchError, match=r"DEBIAN_SNAPSHOT=http://then/.day.: it may have .archive. and .date. only"
    ):
        snapshot_uri("trixie", date)
