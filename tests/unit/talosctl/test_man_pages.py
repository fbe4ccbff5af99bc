"""The manual pages: one for each command, of requests that man(7) has."""

import re
import sys
from pathlib import Path

import pytest

from talos.talosctl.man_pages import main, page_name, walk_commands

REQUESTS = {".TH", ".SH", ".TP", ".PP", ".nf", ".fi"}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("man") / "man1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["man_pages", str(folder)])
        assert main() == 0
    return {path.name: path.read_text(encoding="utf-8") for path in Path(folder).iterdir()}


def test_every_command_has_a_page(pages: dict[str, str]) -> None:
    assert set(pages) == {f"{page_name(chain)}.1" for chain in walk_commands()}
    assert ".SH OPTIONS\n" in pages["talosctl-upgrade.1"]
    assert "\\fB\\-n\\fR, \\fB\\-\\-nodes\\fR \\fIstrings\\fR\n" in pages["talosctl-upgrade.1"]


def test_pages_have_known_requests_and_pages_that_exist(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        requests = set(re.findall(r"^[.']\S*", text, re.MULTILINE))
        assert requests <= REQUESTS, name
        for other in re.findall(r"\\fB(\S+)\\fR\(1\)", text):
            assert f"{other.replace(chr(92) + '-', '-')}.1" in pages, name
