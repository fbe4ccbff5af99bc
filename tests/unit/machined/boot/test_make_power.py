"""How a shutdown ends, by the kernel's arguments."""

from pathlib import Path

import pytest

from talos.machined.boot.make_power import choose_off
from talos.machined.platform.platform import ContainerPlatform
from talos.system.power import PowerAction
from talos.system.proc.cmdline import parse_cmdline


@pytest.mark.parametrize(
    ("cmdline", "action"),
    [
        ("", PowerAction.POWER_OFF),
        ("talos.shutdown=poweroff", PowerAction.POWER_OFF),
        ("talos.shutdown=halt", PowerAction.HALT),
    ],
)
def test_the_kernels_arguments_choose_halt(cmdline: str, action: PowerAction) -> None:
    platform = ContainerPlatform(arguments=parse_cmdline(cmdline), handover=Path("/nonexistent"))
    assert choose_off(platform) is action
