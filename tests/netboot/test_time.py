"""A machine whose clock was lost gets the time: from the server that DHCP names, served by a real chrony."""

import json
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from driver.accelerator import Accelerator
from driver.programs import Programs
from tests.harness.cluster import eventually
from tests.harness.peers import find_peer
from tests.netboot.machine import BOOT_TIMEOUT, MAINTENANCE, OURS, call_machine, dhcp, kernel, machine
from tests.netboot.segment import Segment, make_segment
from tests.netboot.watched import watch

pytestmark = [
    pytest.mark.root,
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]

SERVER = OURS.partition("/")[0]
SYNC_TIMEOUT = 120  # seconds
CHRONY = """\
local stratum 1
allow all
cmdport 0
bindaddress {server}
pidfile {folder}/chrony.pid
"""


def chrony(folder: Path) -> list[str]:
    config = folder / "chrony.conf"
    config.write_text(CHRONY.format(server=SERVER, folder=folder))
    # -x: the machine's own clock is shown and never set.
    return [*find_peer("chronyd"), "-x", "-d", "-u", "root", "-f", str(config)]


def get(segment: Segment, address: IPv4Address, kind: str) -> Any:
    return json.loads(call_machine(segment, address, "get", kind, "-o", "json"))["spec"]


def test_a_clock_of_1970_is_set_by_the_server_of_the_lease(
    assets: Path, programs: Programs, accelerator: Accelerator, tmp_path: Path
) -> None:
    clock = ("-rtc", "base=1970-01-02T00:00:00,clock=vm")
    argv = machine(programs, accelerator, *clock, *kernel(assets, accelerator))
    with (
        make_segment(OURS) as segment,
        watch("dnsmasq", dhcp(programs, f"--dhcp-option=option:ntp-server,{SERVER}"), segment, tmp_path),
        watch("chrony", chrony(tmp_path), segment, tmp_path),
        watch("machine", argv, segment, tmp_path) as booted,
    ):
        address = IPv4Address(booted.wait_for(MAINTENANCE, BOOT_TIMEOUT * accelerator.factor))
        check_clock(segment, address, SYNC_TIMEOUT * accelerator.factor)


def check_clock(segment: Segment, address: IPv4Address, seconds: float) -> None:
    def synced() -> None:
        status = get(segment, address, "timestatus")
        assert status["synced"], (status, call_machine(segment, address, "logs", "timed"))

    eventually("the clock is synchronized", synced, seconds=seconds)
    # From 1970 to now is a step that begins a new epoch.
    status = get(segment, address, "timestatus")
    assert status["epoch"] == 1, (status, call_machine(segment, address, "logs", "timed"))
    assert get(segment, address, "timeservers")["timeServers"] == [SERVER]

    def is_set() -> None:
        adjtime = get(segment, address, "adjtimestatus")
        assert adjtime["syncStatus"], adjtime

    eventually("the kernel's clock counts as synchronized", is_set, seconds=seconds)
