"""The reboot after a failure of PID 1."""

from talos.machined.boot.failure import reboot_after_failure
from talos.system import kernel


def test_the_last_resort_reboots() -> None:
    pressed, slept = list[int](), list[float]()
    reboot_after_failure("test: on purpose", press=pressed.append, sleep=slept.append)
    assert pressed == [kernel.RB_AUTOBOOT]
    assert slept == [10.0]


def test_the_last_resort_survives_a_refusal() -> None:
    def refuse(_command: int) -> None:
        raise PermissionError

    reboot_after_failure("test: on purpose", press=refuse, sleep=lambda _: None)
