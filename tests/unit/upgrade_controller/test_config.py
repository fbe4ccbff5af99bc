"""The controller's config: defaults, paths, and every mistake with its place."""

from pathlib import Path

import pytest

from talos.system.errors import UserError
from talos.upgrade_controller.config import load_settings, make_settings

LEAST = """\
channel: {image: "registry.test/installer:stable", keys: [release.pub]}
talosconfig: talosconfig
status: /run/status.json
"""
PLACE = Path("/etc/controller/config.yaml")


def test_what_need_not_be_said() -> None:
    settings = make_settings(LEAST.encode(), PLACE)
    assert settings.keys == (Path("/etc/controller/release.pub"),)
    assert settings.status == Path("/run/status.json")
    assert settings.windows == ()
    config = settings.config
    assert (config.parallel, config.paused, config.interval.seconds) == (1, False, 300)
    assert config.nodes.hostnames == ("*",)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("paralel: 2", 'config.yaml:4:1: paralel: unknown key (did you mean "parallel"?)'),
        ("parallel: 0", "config.yaml:4:11: parallel: "),
        ("parallel: many", "parallel: "),
        ("paused: maybe", "paused: "),
        ("interval: 5", "interval: "),
        ("maxUnavailable: some", "maxUnavailable: 'some' is no number of nodes"),
        ("nodes: {roles: [master]}", "nodes.roles[0]: "),
        ('windows: [{from: "22:00"}]', "windows[0].to: "),
        ('windows: [{from: "22:00", to: "26:00"}]', "windows[0].to: '26:00' is no time of the day"),
        ('windows: [{days: [someday], from: "22:00", to: "23:00"}]', "windows[0].days[0]: "),
        ("status: again", "status: "),
        ("--- {}", "holds 2 documents"),
    ],
)
def test_mistakes_have_a_place(more: str, text: str) -> None:
    with pytest.raises(UserError) as caught:
        make_settings(f"{LEAST}{more}\n".encode(), PLACE)
    assert text in str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "[]", "talosconfig: x", "channel: {}", "\x00", "a: &a [*a]", "{" * 5000]
)
def test_files_that_are_something_else(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"config\.yaml"):
        load_settings(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't be read: No such file"):
        load_settings(tmp_path / "config.yaml")
