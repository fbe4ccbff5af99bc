# ruff: noqa: E501 - messages stand whole, so that they can be searched for
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from talos.config.problem import ConfigError
from talos.config.talosconfig.model import Context, TalosConfig
from talos.config.talosconfig.places import find_talosconfig, open_talosconfig, save
from talos.config.talosconfig.text import format_talosconfig, parse_talosconfig
from talos.system.errors import UserError

ONE = TalosConfig(
    context="a", contexts={"a": Context(endpoints=("10.0.0.1",), ca=b"ca", crt=b"crt", key=b"key")}
)


def test_text_has_upstreams_keys() -> None:
    full = Context(endpoints=(), nodes=("n",), ca=b"x", proxy_url="http://p", cluster="c")
    assert format_talosconfig(ONE.with_context("b", full)) == (
        "context: a\ncontexts:\n    a:\n        endpoints:\n            - 10.0.0.1\n        ca: Y2E=\n        crt: Y3J0\n        key: a2V5\n"
        "    b:\n        endpoints: []\n        nodes:\n            - \"n\"\n        ca: eA==\n        cluster: c\n        proxy-url: http://p\n"
    )  # fmt: skip
    assert format_talosconfig(TalosConfig()) == 'context: ""\ncontexts: {}\n'


def test_round_trip() -> None:
    text = """context: a
contexts:
  a:
    target: 10.0.0.9
    endpoints: [10.0.0.1]
    nodes: [n]
    ca: Y2E=
    auth: {basic: {username: u, password: p}, siderov1: {identity: me}}
    proxy-url: http://p
"""
    config = parse_talosconfig(text)
    assert config.current.endpoints == ("10.0.0.1", "10.0.0.9")
    assert parse_talosconfig(format_talosconfig(config)) == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "contexts: {a: {crt: '?'}}\n",
            "t:1:21: contexts[a].crt: expected base64 (the whole PEM block, encoded on one line)",
        ),
        ("contexts: []\n", "t:1:11: contexts: expected a mapping, got a list"),
        ("context: a\n---\ncontext: b\n", "t:3:1: expected one document"),
        ("a: [", "t:2:1: no valid YAML: did not find expected node content"),
    ],
)
def test_bad_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_talosconfig(text, source="t")
    assert str(raised.value) == message


def test_search_order(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    default = tmp_path / "home" / ".talos" / "config"
    assert find_talosconfig("", environ) == default
    environ["TALOS_HOME"] = "relative"
    assert find_talosconfig("", environ) == default
    environ["TALOS_HOME"] = str(tmp_path / "th")
    assert find_talosconfig("", environ) == tmp_path / "th" / "config"
    environ["TALOSCONFIG"] = str(tmp_path / "tc")
    assert find_talosconfig("", environ) == tmp_path / "tc"
    (tmp_path / "th").mkdir()
    (tmp_path / "th" / "config").touch()
    assert find_talosconfig("", environ) == tmp_path / "th" / "config"
    (tmp_path / "tc").touch()
    assert find_talosconfig("", environ) == tmp_path / "tc"
    (tmp_path / "xdg" / "talos").mkdir(parents=True)
    (tmp_path / "xdg" / "talos" / "config.yaml").touch()
    assert find_talosconfig("", environ) == tmp_path / "xdg" / "talos" / "config.yaml"
    assert find_talosconfig("/explicit", environ) == Path("/explicit")


def test_missing_file_is_made_for_its_owner_only_when_it_is_saved(tmp_path: Path) -> None:
    config, path = open_talosconfig("", {"HOME": str(tmp_path)})
    assert config == TalosConfig()
    with pytest.raises(UserError, match=f"{path}: no context is set"):
        _ = config.current
    assert not path.parent.exists()
    save(config, path)
    assert path.read_text() == 'context: ""\ncontexts: {}\n'
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_saving_replaces_the_file_behind_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "real", tmp_path / "link"
    target.write_text("context: old\n")
    link.symlink_to(target)
    save(ONE, link)
    assert link.is_symlink()
    assert parse_talosconfig(target.read_text()) == ONE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_what_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file/config: can't be read: Not a directory"):
        open_talosconfig(str(tmp_path / "file" / "config"))
    with pytest.raises(UserError, match="can't be written"):
        save(ONE, tmp_path / "file" / "config")


def test_merge_renames_what_is_taken() -> None:
    other = TalosConfig(context="a", contexts={"a": Context(nodes=("x",)), "b": Context()})
    merged, renames = ONE.merge(other)
    assert renames == {"a": "a-1"}
    assert merged.context == "a-1"
    assert list(merged.contexts) == ["a", "a-1", "b"]
    again, renames = merged.merge(TalosConfig(contexts=other.contexts))
    assert renames == {"a": "a-2", "b": "b-1"}
    assert again.context == "a-1"


def test_contexts_are_selected_and_removed() -> None:
    config = ONE.with_context("b", Context())
    assert config.selecting("b").context == "b"
    assert list(config.without_context("b").contexts) == ["a"]
    with pytest.raises(UserError, match='context "a" is the current one'):
        config.without_context("a")
    with pytest.raises(UserError, match='context "c" is not defined'):
        config.selecting("c")
    with pytest.raises(UserError, match="no context is set"):
        _ = TalosConfig().current


def test_key_is_not_in_the_repr() -> None:
    assert "b'key'" not in repr(ONE)


@pytest.mark.parametrize(
    "change",
    [
        ("", ""),
        ("context: one", "context: true"),
        ("    one:", "    null:"),
        ("    one:", "    1.5:"),
        ("10.0.0.1", "10.1"),
        ("10.0.0.1", "0x10"),
        ("10.0.0.1", "host.example:50000"),
        ("10.0.0.1", "https://host.example"),
        ("10.0.0.1", "'10.0.0.1'"),
        ("10.0.0.1", "10.0.0.1 # first"),
        ("10.0.0.1", "*anchor"),
        ("nodes:", "endpoints:"),
        ("nodes:", "target:"),
        ("ca: ", "ca: !!binary "),
        ("ca: ", "crt: "),
        ("        nodes:\n", "        nodes: []\n"),
        ("LS0tLS1B", "LS0tLS1"),
        ("LS0tLS1B", "true"),
        ("    one:\n", "    one:\n        auth:\n            basic:\n                username: me\n"),
        ("contexts:", "---\ncontexts:"),
        ("endpoints:\n", "endpoints:\n\n"),
        ("    one:", "  one:"),
    ],
)
def test_the_written_form_means_what_yaml_makes_of_it(change: tuple[str, str]) -> None:
    from talos.config.talosconfig.yaml import parse_yaml

    written = (
        "context: one\ncontexts:\n    one:\n        endpoints:\n            - 10.0.0.1\n            - n.example\n"
        "        nodes:\n            - 10.0.0.1\n        ca: LS0tLS1B\n        cluster: c-1\n"
        "    two:\n        endpoints: []\n        crt: LS0tLS1B\n        key: LS0tLS1B\n"
    ).replace(*change)

    def outcome(read: Callable[[str, str], TalosConfig]) -> TalosConfig | str:
        try:
            return read(written, "file")
        except ConfigError as error:
            return str(error)

    assert outcome(lambda text, source: parse_talosconfig(text, source=source)) == outcome(parse_yaml)


def test_a_written_file_is_read_without_the_yaml_reader(tmp_path: Path) -> None:
    save(ONE, tmp_path / "config")
    code = (
        "import sys; from talos.config.talosconfig.places import open_talosconfig; "
        "config, _ = open_talosconfig(sys.argv[1]); assert config.current.key == b'key'; "
        "assert 'yaml' not in sys.modules"
    )
    pem = Context(endpoints=("10.0.0.1",), ca=b"-" * 30, crt=b"-" * 30, key=b"key" * 3)
    save(ONE.with_context("a", pem), tmp_path / "config")
    command = [sys.executable, "-c", code.replace("b'key'", "b'key' * 3"), str(tmp_path / "config")]
    subprocess.run(command, check=True, env={"PYTHONPATH": ":".join(sys.path)})
