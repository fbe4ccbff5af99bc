"""What a test keeps of its machines for others, and when they may begin with it."""

from pathlib import Path

import pytest
from driver.accelerator import Accelerator
from driver.assets import Assets
from driver.programs import Programs
from driver.saved import SHARED, restore, save
from driver.world import World

ARGUMENTS = ("tsc_early_khz=2596138", "nohz=off")


def make_world(folder: Path, saved: Path | None = None, arguments: tuple[str, ...] = ARGUMENTS) -> World:
    return World(
        {},
        programs=Programs(()),
        assets=Assets({"base": saved} if saved else {}),
        accelerator=Accelerator(name="emulation", argv=(), factor=1, arguments=arguments),
        folder=folder,
        talosctl=Path("/bin/false"),
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    world = make_world(tmp_path / "one")
    for name in SHARED:
        (world.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (world.folder / name).write_text(f"of {name}")
    save(world)
    assert world.saved
    for path in world.saved.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)  # as in the store
    return world.saved


def test_secrets_and_keys_go_with_the_machines(tmp_path: Path, saved: Path) -> None:
    world = make_world(tmp_path / "two", saved)
    assert restore(world, "base")
    for name in SHARED:
        assert (world.folder / name).read_text() == f"of {name}"
        assert (world.folder / name).stat().st_mode & 0o777 == 0o600


def test_a_clock_of_another_rate_needs_machines_of_its_own(tmp_path: Path, saved: Path) -> None:
    world = make_world(tmp_path / "two", saved, ("tsc_early_khz=3000000", "nohz=off"))
    assert not restore(world, "base")
    assert not world.folder.exists()


def test_a_test_without_the_asset_installs_its_own(tmp_path: Path) -> None:
    assert not restore(make_world(tmp_path), "base")
