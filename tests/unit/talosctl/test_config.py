"""``talosctl config``: the client's own file."""

import json
import re
import stat
from pathlib import Path

import pytest
import yaml
from google.protobuf.empty_pb2 import Empty
from tests.unit.talosctl.fake import Client, FakeNode, Pki

from talos.api.machine import machine_pb2 as machine
from talos.config.talosconfig.text import parse_talosconfig
from talos.talosctl.cli.exit import Exit
from talos.talosctl.main import run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("TALOSCONFIG", "TALOS_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def pems(tmp_path: Path, pki: Pki):
    (tmp_path / "ca.crt").write_bytes(pki.authority.crt)
    (tmp_path / "admin.crt").write_bytes(pki.admin.crt)
    (tmp_path / "admin.key").write_bytes(pki.admin.key)
    return [
        "--ca",
        str(tmp_path / "ca.crt"),
        "--crt",
        str(tmp_path / "admin.crt"),
        "--key",
        str(tmp_path / "admin.key"),
    ]


def test_a_context_from_add_to_remove(
    home: Path, pems: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / ".talos" / "config"
    assert run(["config", "add", "one", *pems]) == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run(["config", "add", "one", *pems]) == 0, "replaced"
    assert run(["config", "add", "one", "--crt", pems[3]]) == Exit.USAGE
    assert "belong together" in capsys.readouterr().err
    assert run(["config", "context", "one"]) == 0
    assert run(["config", "endpoint", "10.0.0.1", "10.0.0.2"]) == 0
    assert run(["config", "node", "10.0.0.3"]) == 0
    assert run(["config", "proxy-url", "socks5://10.0.0.9"]) == 0
    assert run(["config", "add", "two"]) == 0
    capsys.readouterr()
    assert run(["config", "contexts"]) == 0
    assert capsys.readouterr().out == (
        "CURRENT   NAME   ENDPOINTS           NODES\n"
        "*         one    10.0.0.1,10.0.0.2   10.0.0.3\n"
        "          two\n"
    )
    assert run(["config", "info"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Current context:     one\nNodes:               10.0.0.3\n")
    assert "Roles:               os:admin\n" in out
    assert re.search(r"^Certificate expires: .* from now \(\d{4}-\d\d-\d\d\)$", out, re.MULTILINE)
    assert run(["config", "remove", "two", "--dry-run"]) == 0
    assert capsys.readouterr().err == 'removing context "two"\n'
    assert list(yaml.safe_load(path.read_text())["contexts"]) == ["one", "two"]
    assert run(["config", "remove", "two"]) == 0, "no terminal to prompt on"
    assert capsys.readouterr().err == 'keeping context "two"\n'
    logins = home / ".talos" / "config.login"
    logins.write_text(json.dumps({"one": {"refresh_token": "1"}, "two": {"refresh_token": "2"}}))
    assert run(["config", "remove", "*", "-y"]) == 0
    err = capsys.readouterr().err
    assert 'skipping removal of current context "one"' in err
    assert 'removing context "two"\n' in err
    assert list(yaml.safe_load(path.read_text())["contexts"]) == ["one"]
    assert json.loads(logins.read_text()) == {"one": {"refresh_token": "1"}}
    assert run(["config", "context", "two"]) == 1
    assert 'context "two" is not defined' in capsys.readouterr().err


def test_info_as_json(home: Path, pems: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run(["config", "add", "one", *pems])
    run(["config", "context", "one"])
    capsys.readouterr()
    assert run(["config", "info", "-o", "json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert (info["context"], info["roles"], info["nodes"]) == ("one", ["os:admin"], [])
    assert len(info["certNotAfter"]) == len("2026-01-02")
    assert run(["config", "info", "-o", "table"]) == Exit.USAGE
    assert 'unknown output format: "table"' in capsys.readouterr().err
    assert run(["config", "add", "bare"]) == 0
    assert run(["config", "info", "-o", "json", "--context", "bare"]) == 0
    assert json.loads(capsys.readouterr().out)["roles"] is None
    assert run(["config", "info", "--context", "bare"]) == 0
    assert "Roles" not in capsys.readouterr().out


def test_endpoint_needs_an_argument(home: Path, pems: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run(["config", "add", "one", *pems])
    run(["config", "context", "one"])
    run(["config", "endpoint", "10.0.0.1"])
    assert run(["config", "endpoint"]) == Exit.USAGE
    assert run(["config", "node", "10.0.0.2"]) == 0
    assert run(["config", "node"]) == 0, "clears the nodes"
    context = parse_talosconfig((home / ".talos" / "config").read_text()).current
    assert (context.endpoints, context.nodes) == (("10.0.0.1",), ())
    capsys.readouterr()


def test_merge_takes_several_files(home: Path, pems: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("zebra", "ant"):
        run(["config", "add", name, *pems, "--talosconfig", str(home / name)])
    assert run(["config", "merge", str(home / "zebra"), str(home / "ant")]) == 0
    path = home / ".talos" / "config"
    assert list(yaml.safe_load(path.read_text())["contexts"]) == ["ant", "zebra"], "sorted"
    before = path.read_bytes()
    assert run(["config", "merge", str(home / "ant"), str(home / "missing")]) == 1
    assert path.read_bytes() == before, "all or none"
    capsys.readouterr()


def test_bad_endpoint_is_refused(home: Path, pems: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run(["config", "add", "one", *pems])
    run(["config", "context", "one"])
    assert run(["config", "endpoint", "10.0.0.1:x"]) == 1
    assert '"x" is not a port' in capsys.readouterr().err


def test_merge_renames_what_is_taken(home: Path, pems: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    other = home / "other"
    run(["config", "add", "one", *pems])
    run(["config", "context", "one"])
    run(["config", "add", "one", *pems, "--talosconfig", str(other)])
    run(["config", "context", "one", "--talosconfig", str(other)])
    assert run(["config", "merge", str(other)]) == 0
    assert 'renamed talosconfig context "one" -> "one-1"' in capsys.readouterr().err
    merged = parse_talosconfig((home / ".talos" / "config").read_text())
    assert (merged.context, list(merged.contexts)) == ("one-1", ["one", "one-1"])


def test_search_order(home: Path, pems: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def current() -> str:
        monkeypatch.setattr("sys.argv", [])
        from talos.config.talosconfig.places import open_talosconfig

        return open_talosconfig()[0].context

    def make(path: Path, name: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump({"context": name, "contexts": {name: {"endpoints": []}}}))

    make(home / ".talos" / "config", "home")
    assert current() == "home"
    make(home / "elsewhere" / "config", "talos-home")
    monkeypatch.setenv("TALOS_HOME", str(home / "elsewhere"))
    assert current() == "talos-home"
    make(home / "named", "variable")
    monkeypatch.setenv("TALOSCONFIG", str(home / "named"))
    assert current() == "variable"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    assert current() == "variable"
    make(home / "xdg" / "talos" / "config.yaml", "xdg")
    assert current() == "xdg"


def test_without_any_context(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory"]) == 1
    error = capsys.readouterr().err
    assert "failed to determine endpoints" in error
    assert error.count("\n") == 1


def test_broken_file_is_one_clear_error(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "broken").write_text("context: a\ncontexts:\n  a:\n    crt: [a]\n")
    assert run(["memory", "--talosconfig", str(home / "broken")]) == 1
    error = capsys.readouterr().err
    assert "contexts[a].crt" in error
    assert "Traceback" not in error


def test_new_is_issued_by_a_node(talosctl: Client, node: FakeNode, tmp_path: Path) -> None:
    issued = "context: reader@test\ncontexts:\n    reader@test:\n        endpoints: []\n"
    reply = machine.GenerateClientConfigurationResponse(
        messages=[machine.GenerateClientConfiguration(talosconfig=issued.encode())]
    )
    node.on(
        "/machine.MachineService/GenerateClientConfiguration",
        machine.GenerateClientConfigurationRequest,
        reply,
    )
    path = tmp_path / "new"
    result = talosctl("config", "new", str(path), "--roles", "os:reader", "--crt-ttl", "1h", "-n", "10.0.0.2")
    assert result.code == 0, result.err
    request = node.seen[0][2]
    assert (list(request.roles), request.crt_ttl.seconds) == (["os:reader"], 3600)
    assert parse_talosconfig(path.read_text()).current.endpoints == (f"127.0.0.1:{node.port}",)
    assert talosctl("config", "new", str(path), "-n", "10.0.0.2").code == 1
    unknown = talosctl("config", "new", str(tmp_path / "other"), "--roles", "os:bogus", "-n", "10.0.0.2")
    assert unknown.code == Exit.USAGE
    assert "--roles: unknown roles: os:bogus" in unknown.err


def test_context_flag(client: Client, node: FakeNode) -> None:
    client.configure([f"127.0.0.1:{node.port}"], ["10.0.0.2"])
    node.on("/machine.MachineService/Memory", Empty, machine.MemoryResponse(messages=[machine.Memory()]))
    assert client("memory", "--context", "test").code == 0
    result = client("memory", "--context", "other")
    assert result.code == 1
    assert 'context "other" is not defined' in result.err
