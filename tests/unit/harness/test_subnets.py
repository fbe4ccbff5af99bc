"""Address ranges of test runs beside each other."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.harness import subnets
from tests.harness.subnets import free_subnet

HEAD = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
OTHER = """
import sys, pathlib
from tests.harness.subnets import free_subnet
print(free_subnet(*map(pathlib.Path, sys.argv[1:])), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def routes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(subnets, "_held", {})
    path = tmp_path / "route"
    path.write_text(HEAD, encoding="ascii")
    return path


def use(routes: Path, address: str) -> None:
    number = int.from_bytes(bytes(map(int, address.split("."))), "little")
    line = f"talos-x {number:08X} 00000000 0001 0 0 0 00FFFFFF 0 0 0\n"
    routes.write_text(routes.read_text(encoding="ascii") + line, encoding="ascii")


def test_one_that_is_reached_already_is_not_taken(tmp_path: Path, routes: Path) -> None:
    assert free_subnet(tmp_path, routes) == "10.5.0.0/24"
    use(routes, "10.5.0.0")
    assert free_subnet(tmp_path, routes) == "10.6.0.0/24"


def test_range_that_is_used_no_more_is_given_again(tmp_path: Path, routes: Path) -> None:
    assert free_subnet(tmp_path, routes) == free_subnet(tmp_path, routes)


def test_range_belongs_to_one_process_until_it_ends(tmp_path: Path, routes: Path) -> None:
    """Before anything of it can be seen in the routes; an end by force is one, too."""
    command = [sys.executable, "-c", OTHER, str(tmp_path), str(routes)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    )
    assert other.stdin is not None
    assert other.stdout is not None
    assert other.stdout.readline() == "10.5.0.0/24\n"
    assert free_subnet(tmp_path, routes) == "10.6.0.0/24"
    other.send_signal(signal.SIGKILL)
    other.communicate()
    assert free_subnet(tmp_path, routes) == "10.5.0.0/24"
