"""Which unit tests `make check` runs."""

from pathlib import Path

import pytest
from tests.run.changed import MAX_IMPORTING, MIRRORS, find_importing, find_unit_tests
from tests.run.process import REPOSITORY


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("python/talos/disks/reset.py", "tests/unit/disks"),
        ("python/talos/disks/install/plan.py", "tests/unit/disks/install"),
        ("python/talos/machined/boot/early.py", "tests/unit/machined/boot"),
        ("python/talos/system/no/such/folder.py", "tests/unit/system"),
        ("tests/unit/run/test_changed.py", "tests/unit/run/test_changed.py"),
        ("tests/unit/run/test_that_was_removed.py", "tests/unit/run"),
        ("tests/unit/upgrade/images.py", "tests/unit/upgrade"),
        ("tests/unit/conftest.py", "tests/unit"),
        ("tests/data/wire/fields.tsv", "tests/unit"),
        ("pkgs/fetch/store.py", "tests/unit/fetch"),
        ("pkgs/checks/import_daemons.py", "tests/unit/checks"),
        ("nixos-tests/driver/console.py", "tests/unit/vm_driver"),
        ("docs/network.md", "tests/unit/networkd/test_docs.py"),
        ("Makefile", "tests/unit/fetch/test_makefile.py"),
    ],
)
def test_tests_mirror_modules(changed: str, tests: str) -> None:
    assert find_unit_tests([changed]) == [tests]


def test_pages_and_suites_have_no_unit_tests() -> None:
    assert not find_unit_tests(["README.md", "docs/install.md", "tests/node/test_rest.py", "VERSION"])


def test_folder_contains_its_folders() -> None:
    changed = [
        "python/talos/disks/reset.py",
        "python/talos/disks/install/plan.py",
        "tests/unit/disks/test_x.py",
    ]
    assert find_unit_tests(changed) == ["tests/unit/disks"]


def test_tests_that_import_a_module_are_run_unless_most_do(tmp_path: Path) -> None:
    folder = tmp_path / "tests/unit/disks"
    folder.mkdir(parents=True)
    imports = {
        "test_one": "from talos.system.block.luks import find_mapped\n",
        "test_two": "from talos.system.block import luks, meta\n",
        "test_other": "from talos.system.block.luks_header import read_header\n",
        "test_helper": "from tests.unit.disks.heads import make_head\n",
        "test_beside": "from .heads import make_head\n",
        "heads": "from talos.system.block.luks import find_mapped\n",
    }
    for name, text in imports.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    changed = "python/talos/system/block/luks.py"
    expected = ["tests/unit/disks/test_one.py", "tests/unit/disks/test_two.py"]
    assert find_importing([changed, "docs/install.md"], tmp_path) == expected
    assert find_importing(["tests/unit/disks/heads.py"], tmp_path) == [
        "tests/unit/disks/test_beside.py",
        "tests/unit/disks/test_helper.py",
    ]
    for number in range(MAX_IMPORTING):
        (folder / f"test_{number}.py").write_text(imports["test_one"], encoding="utf-8")
    assert find_importing([changed], tmp_path) == []


def test_every_mirror_is_there() -> None:
    pages = {"docs/network.md", "Makefile"}  # no input of these tests
    named = {*MIRRORS, *MIRRORS.values()} - pages
    assert [path for path in sorted(named) if not (REPOSITORY / path).exists()] == []
