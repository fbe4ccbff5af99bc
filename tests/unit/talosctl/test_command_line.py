"""The command line's conventions."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from talos.api.durations import format_duration, parse_duration
from talos.talosctl.cli.exit import Exit
from talos.talosctl.cli.parse import UsageError, parse
from talos.talosctl.main import run
from talos.talosctl.tree import ROOT


def test_lists_are_comma_separated_and_repeatable() -> None:
    flags = parse(ROOT, ["memory", "-n", "a,b", "--nodes=c", '-n"d,e",f']).flags
    assert flags.texts("nodes") == ("a", "b", "c", "d,e", "f")


def test_arrays_keep_commas() -> None:
    flags = parse(ROOT, ["apply-config", "-p", "a,b", "-p=c"]).flags
    assert flags.texts("config-patch") == ("a,b", "c")


def test_booleans_take_a_value_only_after_an_equals_sign() -> None:
    assert not parse(ROOT, ["reboot", "--wait=false"]).flags.is_set("wait")
    invocation = parse(ROOT, ["netstat", "-al4"])
    assert all(invocation.flags.is_set(name) for name in ("all", "listening", "ipv4"))
    with pytest.raises(UsageError, match='unknown command "false" for "talosctl reboot"'):
        parse(ROOT, ["reboot", "--wait", "false"])


def test_a_list_given_replaces_the_default() -> None:
    argv = ["gen", "csr", "--key", "x", "--ip", "10.0.0.1"]
    assert parse(ROOT, [*argv, "--roles", "os:reader"]).flags.texts("roles") == ("os:reader",)
    assert parse(ROOT, argv).flags.texts("roles") == ("os:admin",)


INVOCATIONS = Path(__file__).parents[2] / "data" / "talosctl" / "invocations.txt"


@pytest.mark.parametrize("line", INVOCATIONS.read_text(encoding="utf-8").splitlines())
def test_what_scripts_run_is_understood(line: str) -> None:
    program, *argv = shlex.split(line)
    assert program == ROOT.name
    chain = parse(ROOT, argv).path
    assert len(chain) > 1, "no command is found"


def test_connection_flags_before_a_command_without_them_are_ignored() -> None:
    invocation = parse(
        ROOT, ["--talosconfig", "x", "-na", "--endpoints=b", "gen", "ca", "--organization", "c"]
    )
    assert (invocation.path, invocation.flags.text("organization")) == (("talosctl", "gen", "ca"), "c")
    with pytest.raises(UsageError, match="unknown flag: --talosconfig"):
        parse(ROOT, ["gen", "ca", "--talosconfig", "x"])
    with pytest.raises(UsageError, match="unknown flag: --nonsense"):
        parse(ROOT, ["--nonsense", "x", "gen", "ca", "--organization", "c"])


def test_short_flags_of_older_clients() -> None:
    flags = parse(ROOT, ["upgrade", "-i", "a:b", "-m", "powercycle", "-fps"]).flags
    assert all(flags.is_set(name) for name in ("force", "preserve", "stage"))


def test_flags_may_stand_anywhere() -> None:
    invocation = parse(
        ROOT, ["-n", "a", "config", "--context", "x", "endpoint", "one", "-e", "b", "two", "--", "-n"]
    )
    assert invocation.path == ("talosctl", "config", "endpoint")
    assert invocation.args == ("one", "two", "-n")
    assert invocation.flags.texts("nodes") == ("a",)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nonsense"], 'unknown command "nonsense" for "talosctl"'),
        (["memry"], 'Did you mean "memory"'),
        (["memory", "--nonsense"], "unknown flag: --nonsense"),
        (["memory", "-vz"], "unknown shorthand flag: 'z' in -vz"),
        (["memory", "-n"], "flag needs an argument: 'n' in -n"),
        (["memory", "--nodes"], "flag needs an argument: --nodes"),
        (["logs"], "accepts 1 arg(s), received 0"),
        (["logs", "a", "--tail", "x"], 'invalid argument "x" for "--tail" flag'),
        (["logs", "a", "--tail", "3000000000"], "is not between"),
        (["reboot", "--timeout", "5"], "is not a duration such as 30s"),
        (["apply-config", "-m", "later"], "must be one of auto, no-reboot, staged, try"),
        (["gen", "ca"], 'required flag(s) "organization" not set'),
        (["gen", "secrets", "--from-controlplane-config", "a", "-p", "b"], "only one of the flags"),
        (["config", "nonsense"], 'unknown command "nonsense" for "talosctl config"'),
    ],
)
def test_mistakes_are_one_line(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(argv) == Exit.USAGE
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert error.count("\n") == 2  # the mistake, and where help is


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["help"], []])
def test_help_of_the_root(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(argv) == 0
    out = capsys.readouterr().out
    assert "Available Commands:\n  apply-config" in out
    assert "\n  disks " not in out


def test_help_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reboot", "-h"]) == 0
    out = capsys.readouterr().out
    assert "Usage:\n  talosctl reboot [flags]\n" in out
    assert "      --timeout duration" in out
    assert "(default 30m0s)" in out
    assert '(default "default")' in out
    assert run(["help", "config", "add"]) == 0
    assert "Global Flags:" in capsys.readouterr().out


def test_removed_commands_name_their_replacement(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["disks", "--insecure"]) == 1
    assert "talosctl get disks" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1m0s", 60),
        ("1h2m3.5s", 3723.5),
        ("300ms", 0.3),
        ("0", 0),
        ("-5s", -5),
        ("8760h0m0s", 31536000),
        (".5s", 0.5),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "5x", "1m5", "s", "--5s", "1h-2m"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (1.5, "1.5s"), (60, "1m0s"), (3723, "1h2m3s"), (0.25, "250ms"), (-90, "-1m30s")],
)
def test_durations_are_written_like_go(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["mem"], "memory\tShow how much memory is in use\n:4\n"),
        (["config", "con"], "context\tMake a context the current one\ncontexts\tList the contexts\n:4\n"),
        (["apply-config", "--mode", ""], "auto\nno-reboot\nstaged\ntry\n:4\n"),
        (["apply-config", "--mode=s"], "staged\n:4\n"),
        (["apply-config", "-m=s"], "staged\n:4\n"),
        (["reboot", "--wa"], "--wait\twait until it is done and show the progress\n:4\n"),
        (["reboot", "--", "--wa"], ":4\n"),
        (["get", "-o", "js"], "json\njsonpath=\n:4\n"),
        (["get", "-o", "jsonp"], "jsonpath=\n:6\n"),
        (["service", "apid", "st"], "start\nstatus\nstop\n:4\n"),
        (["service", "apid", "sto"], "stop\n:4\n"),
        (["apply-config", "--file", ""], ":0\n"),
        (["memory", ""], ":4\n"),
        (["memory", '""'], ":4\n"),
        (["nonsense", "x"], ":4\n"),
    ],
)
def test_completion(argv: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["__complete", *argv]) == 0
    assert capsys.readouterr().out == expected


def test_completion_without_meanings(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["__completeNoDesc", "mem"]) == 0
    out, err = capsys.readouterr()
    assert out == "memory\n:4\n"
    assert err == "Completion ended with directive: ShellCompDirectiveNoFileComp\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell, "--no-descriptions"]) == 0
    assert " __completeNoDesc " in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("bash") is None, reason="a build sandbox has no bash")
@pytest.mark.parametrize(
    ("line", "replies"),
    [
        ("talosctl mem", ["memory"]),
        ("talosctl apply-config --mode=s", ["staged"]),
        ("talosctl get -o jsonp", ["jsonpath="]),
        ("talosctl apply-config -f ./controlp", ["./controlplane.yaml"]),
    ],
)
def test_bash_completes(
    line: str, replies: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["completion", "bash"]) == 0
    script = f"{capsys.readouterr().out}\nCOMP_LINE=$1 COMP_POINT=${{#1}}\n__talosctl_complete\n"
    script += "printf '%s\\n' \"${COMPREPLY[@]}\""
    program = tmp_path / "talosctl"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m talos.talosctl.main "$@"\n')
    program.chmod(0o755)
    (tmp_path / "controlplane.yaml").touch()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    found = subprocess.run(
        ["bash", "-c", script, "bash", line],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert found.stdout.splitlines() == replies


def test_a_full_output_is_one_line() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    reader, writer = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, full, 1), (os.POSIX_SPAWN_DUP2, writer, 2)]
    argv = [sys.executable, "-m", "talos.talosctl.main", "--help"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("PYTHONUNBUFFERED", None)
    child = os.posix_spawn(sys.executable, argv, environment, file_actions=actions)
    os.close(writer)
    os.close(full)
    with os.fdopen(reader) as file:
        error = file.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert error == "error: the output can't be written: No space left on device\n"


def test_commands_for_linux_end_with_a_line_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert run(["cluster", "create", "--workers", "1"]) == Exit.FAILED
    assert capsys.readouterr().err.startswith("error: create: works on Linux only, and this is ")
    assert run(["cluster", "--help"]) == 0
    assert "Create a local cluster" in capsys.readouterr().out
    assert run(["__complete", "cluster", "create", ""]) == 0
    assert capsys.readouterr().out == ":4\n"
