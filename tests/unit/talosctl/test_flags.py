"""Every command and flag of the table is there, under the same names and with the same defaults."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from talos.talosctl.cli.command import Command, load
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.cli.help import help_text, shown_default
from talos.talosctl.cli.parse import visible_flags
from talos.talosctl.tree import ROOT

TABLE = Path(__file__).parents[2] / "data" / "talosctl" / "flags.tsv"
TYPES = {
    "string(mb,gb)": Type.STRING,
    "disks": Type.STRINGS,
    "mountSpec": Type.STRING,
    "ipSlice": Type.STRINGS,
    "semver": Type.STRING,
    "type": Type.STRING,
    "all, system-disk, user-disks": Type.STRING,
    "auto, no-reboot, staged, try": Type.STRING,
}
# Words of the original's help that look like defaults.
NO_DEFAULTS = {"is no filter", "is to show no history", "false", "", "[]"}
# Named after another release, or another user's home.
OWN_DEFAULTS = {
    ("talosctl upgrade", "--image"),
    ("talosctl gen config", "--kubernetes-version"),
    ("talosctl gen config", "--install-image"),
    ("talosctl cluster show", "--provisioner"),
    ("talosctl cluster create docker", "--image"),
}
NOT_BUILT = {
    "talosctl cluster create dev",
    "talosctl remote-provision-launch",
}


def rows() -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def walk(chain: Sequence[Command] = (ROOT,)) -> Iterator[tuple[str, Sequence[Command]]]:
    yield " ".join(link.name for link in chain), chain
    for child in chain[-1].commands:
        if not child.hidden:
            yield from walk((*chain, load(child)))


COMMANDS = dict(walk())
ROWS = rows()


def test_every_command_is_built_or_known_not_to_be() -> None:
    wanted = {row["command"] for row in ROWS if row["kind"] == "command"}
    assert wanted - COMMANDS.keys() == NOT_BUILT


def test_aliases() -> None:
    for row in ROWS:
        if row["kind"] == "command" and row["command"] in COMMANDS and row["name"]:
            command = COMMANDS[row["command"]][-1]
            assert set(row["name"].split(",")) <= set(command.aliases), row["command"]


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_flags(path: str) -> None:
    built = {f"--{flag.name}": flag for flag in visible_flags(COMMANDS[path])}
    for row in ROWS:
        if row["command"] != path or row["kind"] != "flag":
            continue
        flag = built.get(row["name"])
        assert flag, f"{path} {row['name']} is missing"
        assert flag.short == row["short"].lstrip("-"), row
        wanted = TYPES.get(row["type"]) or Type(row["type"])
        assert flag.type is wanted, row
        # The folder of clusters is found when the command runs.
        if (path, row["name"]) not in OWN_DEFAULTS and row["name"] != "--state":
            assert shown(flag) == (default_of(row)), row


def default_of(row: dict[str, str]) -> str:
    text = row["default"].replace("/home/user", str(Path.home()))
    match row["type"]:
        case "disks":
            return f"[{text}]"
        case "string(mb,gb)":
            return f'"{text}"'
        case _:
            pass
    return "" if text in NO_DEFAULTS else text


def shown(flag: Flag) -> str:
    return shown_default(flag)


def test_rows_of_the_tree_agree_with_the_modules() -> None:
    for row in ROOT.commands:
        if not row.hidden:
            command = load(row)
            assert (command.name, command.aliases, command.summary) == (row.name, row.aliases, row.summary)


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_every_command_explains_itself(path: str) -> None:
    chain = COMMANDS[path]
    text = help_text(chain)
    assert f"  {path}" in text
    flags = visible_flags(chain)
    assert len({flag.name for flag in flags}) == len(flags)
    shorts = [flag.short for flag in flags if flag.short]
    assert len(set(shorts)) == len(shorts)
    assert all(flag.help for flag in flags if not flag.hidden)
    assert chain[-1].run is not None or chain[-1].commands


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_help_fits_a_terminal(path: str, width: int) -> None:
    whole, text = help_text(COMMANDS[path]), help_text(COMMANDS[path], width)
    assert text.split() == whole.split()
    # What can be copied, names of flags with their values and words without a blank stay in one line.
    usage, flags = text.index("Usage:"), text.index("Flags:")
    for line in (text[:usage] + text[flags:]).splitlines():
        is_whole = line.startswith(("  -", "      --")) or len(line.split()) == 1
        assert is_whole or len(line) <= width, line
