"""Programs beside the nodes, started for real."""

import os
import time
from dataclasses import replace
from pathlib import Path

from talos.provision.host.companions import Companion, Companions, make_companions
from talos.provision.plan import ClusterOptions, make_request
from talos.provision.store import ClusterFolder
from talos.system.process import run_command

REQUEST = make_request(ClusterOptions(image=Path("/image"), subnet="10.5.0.0/24"))


def test_a_companion_that_ends_is_started_again_and_killed_in_the_end(tmp_path: Path) -> None:
    sleeper = Companion("sleeper", ["/bin/sleep", "1000"])
    companions = Companions([sleeper], ClusterFolder(tmp_path))
    companions.start_due()
    first = sleeper.pid
    assert first
    assert companions.next_start is None
    os.kill(first, 9)
    companions.note_end(*os.waitpid(first, 0))
    due = companions.next_start
    assert due is not None
    assert time.monotonic() < due
    companions.start_due()
    assert not sleeper.pid, "it waits before it starts again"
    sleeper.start_at = 0.0
    companions.start_due()
    second = sleeper.pid
    companions.kill()
    assert second != first
    assert not Path(f"/proc/{second}").exists()
    assert companions.next_start is None


def test_the_discovery_server_can_be_started_this_way() -> None:
    (discovery,) = make_companions(REQUEST)
    assert discovery.argv[-4:] == ["--addr", "10.5.0.254:3000", "--metrics-addr", "10.5.0.254:2122"]
    assert "discovery API" in run_command([*discovery.argv[:-4], "--help"]).stdout
    assert REQUEST.discovery_endpoint == "http://10.5.0.254:3000/"


def test_without_discovery_there_is_no_server() -> None:
    assert make_companions(replace(REQUEST, discovery=False)) == []


def test_several_control_plane_nodes_have_a_balancer_before_them() -> None:
    request = make_request(ClusterOptions(image=Path("/image"), controlplanes=3))
    assert (str(REQUEST.control_plane), str(request.control_plane)) == ("10.5.0.2", "10.5.0.254")
    _, balancer = make_companions(request)
    assert balancer.argv[-9:] == [
        *("--addr", "10.5.0.254"),
        *("--ports", "6443", "50001"),
        *("--servers", "10.5.0.2", "10.5.0.3", "10.5.0.4"),
    ]
    assert "TCP balancer" in run_command([*balancer.argv[:-9], "--help"]).stdout
