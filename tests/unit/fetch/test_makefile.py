"""What ``make`` passes to Nix: a user's own settings hold."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
FLAKES = "extra-experimental-features = nix-command flakes"
PLAIN = ["build-users-group =", "sandbox = true", "substituters ="]
TOKEN = "access-tokens = example.org=secret"
CACHE = "extra-substituters = https://cache.example.org"


def read_config(folder: Path, **variables: str) -> list[str]:
    """The lines of NIX_CONFIG in a recipe, where Nix has no settings but those given."""
    make = shutil.which("make")
    assert make is not None
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "NIX_CONF_DIR": str(folder / "etc"), **variables}
    argv = [make, "-s", "--eval", 'shown: ; @printf "%s" "$$NIX_CONFIG"', "shown"]
    done = subprocess.run(argv, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if line]


@pytest.fixture(autouse=True)
def _no_daemon() -> None:
    if Path("/nix/var/nix/daemon-socket/socket").exists():
        pytest.skip("Nix is a daemon here, which keeps its settings")


def test_without_settings_nix_is_a_plain_program(tmp_path: Path) -> None:
    assert read_config(tmp_path) == [FLAKES, *PLAIN]


def test_tokens_in_the_environment_stay_beside_the_defaults(tmp_path: Path) -> None:
    assert read_config(tmp_path, NIX_CONFIG=TOKEN) == [TOKEN, FLAKES, *PLAIN]


def test_a_cache_in_the_environment_is_not_switched_off(tmp_path: Path) -> None:
    assert read_config(tmp_path, NIX_CONFIG=f"{TOKEN}\n{CACHE}") == [TOKEN, CACHE, FLAKES, *PLAIN[:2]]


@pytest.mark.parametrize(
    ("path", "variable"),
    [
        ("etc/nix.conf", ""),
        (".config/nix/nix.conf", ""),
        ("xdg/nix/nix.conf", "XDG_CONFIG_HOME"),
        ("mine.conf", "NIX_USER_CONF_FILES"),
    ],
)
def test_settings_in_a_file_hold(tmp_path: Path, path: str, variable: str) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{CACHE}\n")
    values = {"": {}, "XDG_CONFIG_HOME": {variable: f"{tmp_path}/xdg"}}.get(variable, {variable: str(file)})
    assert read_config(tmp_path, **values) == [FLAKES]
