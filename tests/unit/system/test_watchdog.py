"""Watchdogs as the kernel shows them."""

from pathlib import Path

from talos.system.watchdog import find_watchdog, has_reset


def test_hardware_comes_before_the_kernels_own_timer(tmp_path: Path) -> None:
    assert find_watchdog(tmp_path / "none") == ""
    (tmp_path / "watchdog0").mkdir()
    assert find_watchdog(tmp_path) == "/dev/watchdog0"
    (tmp_path / "watchdog1/device").mkdir(parents=True)
    assert find_watchdog(tmp_path) == "/dev/watchdog1"


def test_a_reset_is_recorded_by_the_device(tmp_path: Path) -> None:
    assert not has_reset(tmp_path / "none")
    for number, status in enumerate(("0\n", "garbage", "")):
        (tmp_path / f"watchdog{number}").mkdir()
        (tmp_path / f"watchdog{number}/bootstatus").write_text(status)
    assert not has_reset(tmp_path)
    (tmp_path / "watchdog9").mkdir()
    (tmp_path / "watchdog9/bootstatus").write_text("32\n")
    assert has_reset(tmp_path)
