"""Finding a watchdog as the kernel shows them."""

from pathlib import Path

from talos.system.watchdog import find_watchdog


def test_hardware_comes_before_the_kernels_own_timer(tmp_path: Path) -> None:
    assert find_watchdog(tmp_path / "none") == ""
    (tmp_path / "watchdog0").mkdir()
    assert find_watchdog(tmp_path) == "/dev/watchdog0"
    (tmp_path / "watchdog1/device").mkdir(parents=True)
    assert find_watchdog(tmp_path) == "/dev/watchdog1"
