"""What ``talosctl cluster create`` shows of nodes that don't come up."""

import asyncio
from pathlib import Path

import pytest

from talos.system.errors import UserError
from talos.talosctl.commands.cluster_machines import give_configs
from talos.talosctl.commands.cluster_options import showing_left


def test_machines_that_do_not_come_up_are_one_line() -> None:
    configs = {"127.0.0.2": b"", "127.0.0.3": b""}
    with pytest.raises(UserError, match=r"^node 127\.0\.0\.[23]: is not in maintenance mode"):
        asyncio.run(give_configs(configs, 0.0, print))


def begin(directory: Path, name: str, failure: BaseException) -> None:
    with showing_left(directory, name):
        (directory / name).mkdir(exist_ok=True)
        raise failure


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), UserError("not well")])
def test_nodes_that_go_on_running_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], failure: BaseException
) -> None:
    with pytest.raises(type(failure)):
        begin(tmp_path, "demo", failure)
    assert "talosctl cluster destroy --name demo removes them" in capsys.readouterr().err
    with pytest.raises(type(failure)):
        begin(tmp_path, "demo", failure)  # one of this name was there before
    assert capsys.readouterr().err == ""
