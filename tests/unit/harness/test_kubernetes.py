"""What the tests of clusters make of kubectl's failures, with a program in place of kubectl."""

from pathlib import Path
from typing import Any, cast

import pytest
from tests.harness import kubernetes
from tests.harness.kubernetes import Kubernetes

LATE = "Unable to connect to the server: net/http: TLS handshake timeout"
MISSING = 'Error from server (NotFound): pods "x" not found'
KUBECTL = """\
#!/bin/sh
echo >> {calls}
test $(wc -l < {calls}) -gt {failures} && {{ echo '{{"kind": "Pod"}}'; exit 0; }}
echo '{message}' >&2
exit 1
"""


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """A file with a line for each call."""
    return tmp_path / "calls"


def make(calls: Path, message: str, failures: int, monkeypatch: pytest.MonkeyPatch) -> Kubernetes:
    program, kubeconfig = calls.with_name("kubectl"), calls.with_name("kubeconfig")
    program.write_text(KUBECTL.format(calls=calls, failures=failures, message=message))
    program.chmod(0o755)
    kubeconfig.touch()
    monkeypatch.setattr(kubernetes, "KUBECTL", program)
    monkeypatch.setattr(kubernetes, "RETRY_INTERVAL", 0.01)
    return Kubernetes(cast("Any", None), kubeconfig)


def test_a_request_that_was_not_answered_is_repeated(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert make(calls, LATE, 2, monkeypatch).get("pod", "x") == [{"kind": "Pod"}]
    assert calls.read_text() == "\n" * 3


def test_a_failure_that_is_an_answer_is_not_repeated(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="NotFound"):
        make(calls, MISSING, 9, monkeypatch).get("pod", "x")
    assert calls.read_text() == "\n"


def test_repetitions_end_in_time(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match=r"TLS handshake timeout|no end after"):
        make(calls, LATE, 10_000, monkeypatch).repeat("get", "pod", seconds=0.2)
