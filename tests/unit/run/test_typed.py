"""Which files `make check` gives to the type checker."""

from pathlib import Path

import pytest
from tests.run.process import REPOSITORY
from tests.run.typed import FOLDERS, find_module, find_typed, make_pattern


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("python/talos/disks/reset.py", "talos.disks.reset"),
        ("python/talos/disks/__init__.py", "talos.disks"),
        ("tests/run/typed.py", "tests.run.typed"),
        ("nixos-tests/driver/console.py", "driver.console"),
        ("pkgs/fetch/locks.py", "locks"),
        ("pkgs/python/make_api.py", ""),
        ("docs/network.md", ""),
    ],
)
def test_modules_are_named_as_they_are_imported(path: str, name: str) -> None:
    assert find_module(path) == name


@pytest.mark.parametrize(
    "text",
    [
        "from shop.till.reset import reset",
        "import shop.till.reset",
        "from shop.till import plan, reset",
        "from shop.till import (\n    plan,\n    reset,\n)",
        "def f() -> None:\n    from shop.till import reset",
        "from . import reset",
        "from .reset import reset",
    ],
)
def test_who_imports_a_module_is_found(text: str) -> None:
    assert make_pattern(["shop.till.reset"]).search(text)


@pytest.mark.parametrize(
    "text",
    [
        "from shop.till.resets import reset",
        "from shop.till import plan\nreset = 1",
        "from shop.other import reset",
        "# from shop.till import reset",
    ],
)
def test_who_does_not_is_left_out(text: str) -> None:
    assert not make_pattern(["shop.till.reset"]).search(text)


def test_changed_files_and_those_that_import_them_are_checked(tmp_path: Path) -> None:
    for path, text in {
        "python/talos/disks/reset.py": "",
        "python/talos/machined/reset.py": "from talos.disks.reset import reset",
        "tests/unit/test_other.py": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    both = ["python/talos/disks/reset.py", "python/talos/machined/reset.py"]
    assert find_typed(["python/talos/disks/reset.py"], tmp_path) == both
    assert find_typed(["python/talos/disks/gone.py"], tmp_path) == []
    assert find_typed(["README.md"], tmp_path) == []
    (tmp_path / both[0]).unlink()
    assert find_typed(both[:1], tmp_path) == both[1:], "what imports a module that was removed is checked"


@pytest.mark.parametrize("path", ["pyproject.toml", "python/talos/api/machine/machine.proto"])
def test_some_changes_concern_all_files(path: str) -> None:
    assert find_typed([path]) is None


def test_the_folders_are_those_of_the_settings() -> None:
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    assert all(f'"{folder}"' in text for folder in FOLDERS)
