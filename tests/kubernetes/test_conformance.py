"""`talosctl conformance kubernetes` with runners of the tests' own: verdict, log, results, no remains."""

import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.harness.cluster import eventually
from tests.harness.kubernetes import Kubernetes
from tests.kubernetes.runners import runner

from talos.talosctl.cli.exit import Exit

RUN_TIMEOUT = 240  # seconds


def command(kubernetes: Kubernetes, *argv: str) -> list[str]:
    node = kubernetes.cluster.addresses[0]
    return ["-n", node, "conformance", "kubernetes", *argv]


def check_gone(kubernetes: Kubernetes) -> None:
    for what in ("namespace/conformance", "clusterrolebinding/conformance-serviceaccount"):
        found = kubernetes.kubectl("get", what, check=False)
        assert "NotFound" in found.stderr, found.stdout


def after(lines: Sequence[str], *wanted: str) -> None:
    """Assert that lines are there in this order."""
    position = 0
    for line in wanted:
        assert line in lines[position:], "\n".join(lines)
        position = lines.index(line, position) + 1


def test_both_passes_run_and_leave_their_results(kubernetes: Kubernetes, tmp_path: Path) -> None:
    argv = command(kubernetes, "--image", runner("passes"), "--results", str(tmp_path / "results"))
    lines = kubernetes.cluster.talosctl(*argv, seconds=RUN_TIMEOUT).stdout.splitlines()
    after(
        lines,
        r"running tests: \[Conformance\]",
        r"tests of \[Conformance\], 16 at once",
        "token",
        "all is well",
        "tests completed successfully",
        r"running tests: \[Serial\].*\[Conformance\]",
        r"tests of \[Serial\].*\[Conformance\], 1 at once",
        "tests completed successfully",
    )
    assert lines.count("all is well") == 2
    assert (tmp_path / "results/parallel/e2e.log").read_text() == "\\[Serial\\]\n"
    assert (tmp_path / "results/serial/e2e.log").read_text() == "\n"
    check_gone(kubernetes)


def test_a_failure_is_the_verdict(kubernetes: Kubernetes, tmp_path: Path) -> None:
    argv = command(kubernetes, "--image", runner("fails"), "--results", str(tmp_path), "--mode", "certified")
    result = kubernetes.cluster.talosctl(*argv, check=False, seconds=RUN_TIMEOUT)
    assert result.returncode == 1
    assert "tests failed: code 3" in result.stderr
    after(result.stdout.splitlines(), "one of them fails", f"results are in {tmp_path}/certified")
    assert (tmp_path / "certified/e2e.log").exists()
    check_gone(kubernetes)


@pytest.fixture
def ignoring(number: signal.Signals) -> Iterator[None]:
    """Children begin as in a shell's background, which ignores interrupts, unless they are sent one."""
    is_sent = number is signal.SIGINT
    before = signal.signal(signal.SIGINT, signal.default_int_handler if is_sent else signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.soak
@pytest.mark.usefixtures("ignoring")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_made_is_removed_after_an_interrupt(
    kubernetes: Kubernetes, tmp_path: Path, number: signal.Signals
) -> None:
    """Slow: a runner is started, and its pod and namespace ended, for each."""
    argv = command(kubernetes, "--image", runner("hangs"), "--results", str(tmp_path))
    output = tmp_path / "output"
    with (
        output.open("w") as file,
        subprocess.Popen(
            kubernetes.cluster.command(*argv),
            env=kubernetes.cluster.environment,
            stdout=file,
            stderr=subprocess.STDOUT,
        ) as client,
    ):
        try:

            def begins() -> None:
                assert "it begins" in output.read_text(), output.read_text()

            eventually("the runner runs", begins, seconds=RUN_TIMEOUT)
            client.send_signal(number)
            assert client.wait(RUN_TIMEOUT) != 0
        finally:
            client.kill()
    assert "Traceback" not in output.read_text()
    check_gone(kubernetes)


def test_a_namespace_of_another_owner_stays(kubernetes: Kubernetes) -> None:
    kubernetes.kubectl("create", "namespace", "conformance")
    try:
        result = kubernetes.cluster.talosctl(*command(kubernetes), check=False)
        assert "namespace conformance: it is not of an earlier run of the tests" in result.stderr
        kubernetes.kubectl("get", "namespace", "conformance")
    finally:
        kubernetes.kubectl("delete", "namespace", "conformance", seconds=RUN_TIMEOUT)


def test_a_mode_that_is_none_is_refused(kubernetes: Kubernetes) -> None:
    result = kubernetes.cluster.talosctl(*command(kubernetes, "--mode", "slow"), check=False)
    assert "unsupported conformance mode slow" in result.stderr
    assert result.returncode == Exit.USAGE
