"""The supervisor with real processes; each scenario in a process that is a parent to everything."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from talos.machined.node.ports.services import ServiceState
from talos.machined.services.lifecycle import FOLLOWERS, Lifecycle
from talos.machined.services.supervisor import _sort  # pyright: ignore[reportPrivateUsage]
from talos.machined.services.table import SERVICES
from talos.machined.services.zygote import NAMESPACES_GONE
from talos.system.process import run_command

pytestmark = pytest.mark.root


def run(scenario: str) -> Any:
    program = Path(__file__).with_name("supervised.py")
    return json.loads(
        run_command([sys.executable, str(program), scenario], timeout=90).stdout.splitlines()[-1]
    )


def test_every_exit_code_reaches_its_waiter() -> None:
    result = run("exit_codes")
    assert result["wrong"] == []
    assert result["orphans"] >= 130


def test_a_forked_daemon() -> None:
    result = run("forked")
    assert result["uid"].split()[1:] == ["53"] * 4
    assert result["parent"] == result["me"]
    assert result["title"] == "sample"
    assert result["resource"] == [True, True, False]
    assert result["back after"] < 2
    assert result["end"] == "Finished"
    lines = [line.split()[0] for line in result["log"].splitlines()]
    assert lines == ["hello", "hello", "goodbye"]
    assert result["events"] == [
        "Starting", "Preparing", "Running", "Running", "Waiting", "Preparing", "Running", "Running",
        "Stopping", "Finished",
    ]  # fmt: skip


def test_workloads_in_namespaces_of_their_own() -> None:
    result = run("isolation")
    assert result["alone"] == [True, "Initialized"]
    assert result["pids"] == [True, True, True]
    assert result["parent"]
    assert result["mount"] == [False, True]
    assert (result["title"], result["capabilities"]) == ("sandboxd", 0)
    assert result["again"] == [True, True]
    assert result["end"] < 5
    # One that is started while the first process ends reports it, and is started again.
    lines = [line.split() for line in result["log"] if line != NAMESPACES_GONE]
    assert [words[0] for words in lines] == ["parent", "processes"] * 2
    for (_, parent), (_, *names) in zip(lines[::2], lines[1::2], strict=True):
        assert parent == "0"
        assert "sandboxd" in names
        assert set(names) <= {"sandboxd", "sh", "cat", "sort"}


def test_no_other_gets_the_port_of_a_daemon_that_is_replaced() -> None:
    result = run("kept_listener")
    assert result["taken"] == []
    assert result["answers"] == [1] * 6


def test_a_lost_zygote_is_replaced() -> None:
    result = run("lost_zygote")
    assert result["replaced"]
    assert "ended with -9" in result["reports"][0]


def test_order() -> None:
    result = run("dependencies")
    assert result["waiting"] == 'Waiting for service "b" to be "up"'
    assert result["seen"] == [
        "a", "RUNNING", "b", "RUNNING", "c", "RUNNING", "c", "FINISHED", "b", "FINISHED", "a", "FINISHED",
    ]  # fmt: skip


def test_a_silent_daemon_is_replaced_and_a_slow_one_is_not() -> None:
    result = run("silence")
    assert result["patient"]
    assert not any(message.startswith("Health check failed") for message in result["messages"][:3])
    assert any("ended with signal SIGKILL" in message for message in result["messages"])


def test_a_daemon_that_hangs_at_its_start_is_replaced() -> None:
    result = run("hung_start")
    assert any("ended with signal SIGKILL" in message for message in result["messages"])


def test_a_hung_zygote_is_replaced() -> None:
    result = run("hung_zygote")
    assert result["replaced"]
    assert "ended with -9" in result["reports"][0]
    assert any("did not answer within" in message for message in result["messages"])


def test_restarts_and_the_deaf() -> None:
    result = run("restarts")
    endings = [message for message in result["messages"] if "ended with" in message]
    assert [message.split("ended with ")[1] for message in endings] == [
        "exit code 3, starting again in 0.2 s",
        "exit code 4, starting again in 0.4 s",
    ]
    assert "No such file" in result["missing"]
    assert result["ends"] == ["Finished"] * 3


def test_health() -> None:
    result = run("health")
    assert not result["before"][0]
    assert result["before"][1]
    assert result["after"] == [True, ""]
    assert result["probed"] == [{}, ["dialled"]]
    assert result["end"]


def test_what_the_api_may_do() -> None:
    result = run("permissions")
    assert result["refused"] == [
        "ServiceRefusedError",
        "ServiceRefusedError",
        "UnknownServiceError",
        "no service may start: the end is near",
    ]
    assert result["listed"] == ["kubelet"]


def test_a_container_that_is_not_started_yet_follows_its_spec() -> None:
    first, second = run("given_up")["messages"]
    assert first == "Its start was given up, starting again in 0.2 s"
    assert second.startswith("Could not start: the spec of start 2 was read")


def test_a_process_that_is_replaced_stops_and_starts() -> None:
    result = run("replaced")
    run_of_it = ["Starting", "Preparing", "Running", "Stopping", "Finished"]
    assert [state for state in result["states"] if state != "Waiting"] == 2 * run_of_it
    assert result["messages"].count("Service finished successfully") == 2
    assert not any("starting again" in message for message in result["messages"])


def test_slow_failures_are_repeated_less_and_less_often() -> None:
    first, second = run("slow_failures")["messages"]
    assert first.endswith("no such image, starting again in 0.2 s")
    assert second.endswith("no such image, starting again in 0.4 s")


def test_stopping_whenever_leaves_nothing_behind() -> None:
    result = run("stop_while_starting")
    assert result == {"left": [], "children": 1}  # the zygote


def test_a_stop_takes_back_a_start_that_has_not_begun() -> None:
    assert run("stop_before_start") == {"stopped": "Initialized", "starts": 1}


def test_a_defect_in_one_service_ends_neither_the_others_nor_the_supervisor() -> None:
    assert run("defects") == {"waits": 3, "failures": 2, "end": "Finished"}
    assert run("stopped_defect") == {"again": 0}


def test_a_service_ends_when_it_has_done_its_work() -> None:
    assert run("ends") == {"runs": {"once": 1, "until": 2}, "missing is tried again": True}


def test_the_table() -> None:
    assert len({spec.id for spec in SERVICES}) == len(SERVICES)
    _sort({spec.id: spec.depends for spec in SERVICES})
    with pytest.raises(ValueError, match="not in the table"):
        _sort({"a": ("b",)})


def test_states_follow_only_as_they_may() -> None:
    life = Lifecycle("x", has_health=False, report=lambda _: None)
    with pytest.raises(AssertionError, match="Running does not follow Initialized"):
        life.step(ServiceState.RUNNING, "")
    assert set(FOLLOWERS) == set(ServiceState)
