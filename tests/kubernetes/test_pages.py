"""Commands that pages of the documentation show, on the nodes of a cluster: those that only read."""

from collections.abc import Iterator

import pytest
from tests.harness.cluster import REPOSITORY
from tests.harness.kubernetes import Kubernetes
from tests.harness.pages import MAY_BE_EMPTY, read_command_lines, select_command
from tests.run.jobs import RUN_PAGES

NOT_HERE = frozenset({"--insecure", "sda"})
"""What a cluster of containers lacks: machines in maintenance mode, and a disk of this name."""
COMMAND_TIMEOUT = 120.0  # seconds
"""`health` waits until all is as it should be."""
MAX_SHOWN = 2000  # characters
"""Of the output of a command that fails."""


def read_lines() -> Iterator[str]:
    """The lines of these pages that are run, each once."""
    texts = [(REPOSITORY / page).read_text(encoding="utf-8") for page in RUN_PAGES]
    lines = [line for text in texts for line in read_command_lines(text)]
    return (
        line
        for line in dict.fromkeys(lines)
        if NOT_HERE.isdisjoint(line.split()) and select_command(line, {})
    )


@pytest.mark.parametrize("line", list(read_lines()))
def test_commands_that_pages_show_work(kubernetes: Kubernetes, line: str) -> None:
    cluster = kubernetes.cluster
    control_plane, worker = cluster.addresses
    values = {"10.5.0.2": control_plane, "10.5.0.3": worker, "10.0.0.21": worker}
    selected = select_command(line, {**values, "10.0.0.11": control_plane, "10.0.0.12": control_plane})
    assert selected
    command, words = selected
    result = cluster.talosctl(*words, check=False, seconds=COMMAND_TIMEOUT)
    assert result.returncode == 0, f"{words}: {result.stderr[-MAX_SHOWN:]}{result.stdout[-MAX_SHOWN:]}"
    assert command in MAY_BE_EMPTY or result.stdout.strip(), words
