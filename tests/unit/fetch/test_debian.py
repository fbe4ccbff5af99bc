"""apt's output is parsed, and a version removed from the archive is replaced or refused."""

from typing import Any

import pytest
from debian import check_may_relock, other_suites, parse_uris, with_suites
from report import FetchError

HASH = "c" * 64
LOCK: dict[str, Any] = {"packages": {"libfoo1": {"version": "1:2.0", "file": "libfoo1_1%3a2.0_amd64.deb"}}}


def test_a_line_of_print_uris() -> None:
    text = f"'http://mirror/pool/libfoo1_2.0_amd64.deb' libfoo1_1%3a2.0_amd64.deb 4711 SHA256:{HASH}\n"
    assert parse_uris(text, {})["libfoo1"] == {
        "version": "1:2.0",
        "arch": "amd64",
        "suite": "trixie",
        "sha256": HASH,
        "file": "libfoo1_1%3a2.0_amd64.deb",
    }


def test_a_package_of_another_suite_is_asked_for_and_locked_as_such() -> None:
    text = f"'http://mirror/pool/tool_1_all.deb' tool_1_all.deb 4711 SHA256:{HASH}\n"
    found = parse_uris(text, {"tool": "trixie-backports"})
    assert found["tool"]["suite"] == "trixie-backports"
    suites = other_suites({"libfoo1": {"suite": "trixie"}, **found}, ["libfoo1", "tool"])
    assert with_suites(["libfoo1", "tool"], suites) == ["libfoo1", "tool/trixie-backports"]


def test_other_lines_are_passed_over() -> None:
    assert parse_uris("Reading package lists...\n", {}) == {}


def test_a_newer_version_is_taken_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    check_may_relock(["libfoo1"], LOCK, {"libfoo1": {"version": "1:2.1"}}, may_relock=True)
    stderr = capsys.readouterr().err
    assert "libfoo1 1:2.0 is gone from the archive, which now has 1:2.1" in stderr
    assert "not bit-identical" in stderr


def test_locked_refuses_a_newer_version() -> None:
    with pytest.raises(FetchError, match="LOCKED=1"):
        check_may_relock(["libfoo1"], LOCK, {"libfoo1": {"version": "1:2.1"}}, may_relock=False)


def test_a_package_that_vanished_needs_a_decision() -> None:
    with pytest.raises(FetchError, match="no longer has libfoo1"):
        check_may_relock(["libfoo1"], LOCK, {}, may_relock=True)
