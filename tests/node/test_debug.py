"""Debug containers: sent and pulled, with and without a terminal; nothing of them is left."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.harness.cluster import NODE_TIMEOUT, Cluster, eventually, image_archives

from talos.system.process import CommandResult, start_command

PATTERN = "debug-*.tar"
GROUPS = "sys/fs/cgroup"


def find_archive() -> Path:
    [archive] = image_archives().glob(PATTERN)
    return archive


def find_name() -> str:
    """What the cluster's mirror has."""
    return f"ghcr.io/siderolabs/debug:{find_archive().stem.removeprefix('debug-')}"


def debug(cluster: Cluster, script: str, *argv: str, check: bool = True) -> CommandResult:
    """Run a script in a container from the archive."""
    return cluster.talosctl(
        "-n",
        cluster.addresses[0],
        "debug",
        str(find_archive()),
        "--args",
        f"sh,-c,{script}",
        *argv,
        check=check,
    )


def list_left(cluster: Cluster) -> list[str]:
    """What there still is of debug containers on the node."""
    root = cluster.root()
    groups = [str(path.relative_to(root)) for path in (root / GROUPS).glob("**/debug-*")]
    tasks = [path.name for path in (root / "run/containerd").glob("**/debug-*")]
    containers = cluster.talosctl("-n", cluster.addresses[0], "containers").stdout
    return [*groups, *tasks, *re.findall(r"debug-\w+", containers)]


def list_images(cluster: Cluster, namespace: str) -> str:
    return cluster.talosctl("-n", cluster.addresses[0], "image", "list", "--namespace", namespace).stdout


@pytest.fixture(autouse=True)
def nothing_is_left(cluster: Cluster) -> Generator[None]:
    yield

    def is_gone() -> None:
        assert list_left(cluster) == []

    eventually("nothing is left", is_gone)


def test_it_sees_the_node_and_ends_with_its_exit_code(cluster: Cluster) -> None:
    script = (
        "cat /proc/1/comm; ls /host/system/run; id -u; nft list ruleset >&2 && echo nft; "
        "ls -l /dev/null; exit 7"
    )
    done = debug(cluster, script, check=False)
    assert done.returncode == 1
    assert "container exited with code 7" in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "init"
    assert "containerd" in lines
    assert lines[-3:-1] == ["0", "nft"]
    assert lines[-1].startswith("crw")
    assert find_name() not in list_images(cluster, "inmem")


def test_each_of_its_programs_runs(cluster: Cluster) -> None:
    script = (
        "set -e; mkdir /tmp/site; echo hello > /tmp/site/index.html; "
        "httpd -f -p 127.0.0.1:8099 -h /tmp/site & server=$!; "
        "until ss -tlnH | grep -q 127.0.0.1:8099; do sleep 0.1; done; "
        ": > /tmp/listening; "
        "tcpdump -ni lo -c 1 -w /tmp/packets tcp port 8099 2> /tmp/listening & capture=$!; "
        "until grep -q listening /tmp/listening; do sleep 0.1; done; "
        "curl -sS http://127.0.0.1:8099/; wait $capture; kill $server; "
        "tcpdump -nr /tmp/packets 2> /dev/null; "
        "ip -o -4 addr show dev lo to 127.0.0.0/8; "
        "strace -f -o /tmp/calls true; tail -n 2 /tmp/calls"
    )
    shown = debug(cluster, script).stdout
    assert shown.startswith("hello\n"), shown
    for text in ("127.0.0.1.8099: Flags [S]", "inet 127.0.0.1/8", "exit_group(0)", "+++ exited with 0 +++"):
        assert text in shown, shown


def test_the_start_is_recorded(cluster: Cluster) -> None:
    debug(cluster, "true")
    text = cluster.talosctl("-n", cluster.addresses[0], "logs", "audit", "--tail", "20").stdout
    records = [json.loads(line.partition("{")[1] + line.partition("{")[2]) for line in text.splitlines()]
    found = [record for record in records if record["method"].endswith("ContainerRun")]
    assert [record["result"] for record in found[-3:]] == ["started", "started", "OK"]
    assert found[-2]["image"] == find_name()


@contextmanager
def attached(cluster: Cluster, stdin: int, stdout: int, *argv: str) -> Generator["subprocess.Popen[bytes]"]:
    command = cluster.command("-n", cluster.addresses[0], "debug", str(find_archive()), *argv)
    process = start_command(
        command, stdin=stdin, stdout=stdout, stderr=stdout, env={**cluster.environment, "TERM": "xterm"}
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def read_until(fd: int, wanted: Callable[[str], object]) -> str:
    text, end = "", time.monotonic() + NODE_TIMEOUT
    while not wanted(text):
        assert select.select([fd], [], [], max(end - time.monotonic(), 0))[0], text
        data = os.read(fd, 65536)
        assert data, text
        text += data.decode(errors="replace")
    return text


@contextmanager
def shell_in_terminal(cluster: Cluster) -> Generator[tuple[int, "subprocess.Popen[bytes]"]]:
    """A shell at its prompt in a terminal of 33 rows."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(ours, (33, 101))
    try:
        with attached(cluster, theirs, theirs) as process:
            os.close(theirs)
            read_until(ours, lambda text: "# " in text)
            yield ours, process
    finally:
        os.close(ours)


def test_a_terminal_has_its_size_and_keys(cluster: Cluster) -> None:
    with shell_in_terminal(cluster) as (ours, process):
        os.write(ours, b"stty size\n")
        read_until(ours, lambda text: "33 101" in text)
        termios.tcsetwinsize(ours, (44, 132))
        process.send_signal(signal.SIGWINCH)
        os.write(ours, b"until stty size | grep '44 132'; do sleep 0.1; done\n")
        read_until(ours, lambda text: "44 132\r\n" in text)
        os.write(ours, b"echo st'art'ed; cat\n")
        read_until(ours, lambda text: "started" in text)
        # Echoed by the terminal, then written by cat: from then on it is cat that the key interrupts.
        os.write(ours, b"received\n")
        read_until(ours, lambda text: text.count("received") == 2)
        os.write(ours, b"\x03")
        read_until(ours, lambda text: "# " in text)
        os.write(ours, b"exit 3\n")
        with suppress(OSError):
            read_until(ours, lambda text: "container exited with code 3" in text)
        assert process.wait(NODE_TIMEOUT) == 1


def test_it_ends_with_its_client(cluster: Cluster) -> None:
    with shell_in_terminal(cluster) as (ours, process):
        os.write(ours, b"sleep 4711 & sleep 4712\n")

        def is_running(count: int) -> None:
            found = [line for line in commands(cluster) if line in {"sleep 4711", "sleep 4712"}]
            assert len(found) == count, found

        eventually("both run", lambda: is_running(2))
        process.kill()
        eventually("both are gone", lambda: is_running(0))
    # Who was killed could not remove what it had sent.
    cluster.talosctl("-n", cluster.addresses[0], "image", "remove", find_name(), "--namespace", "inmem")


def commands(cluster: Cluster) -> list[str]:
    """The command lines of the node's processes."""
    pids = [pid for pids in cluster.processes().values() for pid in pids]
    found: list[str] = []
    for pid in pids:
        with suppress(OSError):
            found.append(
                Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode()
            )
    return found


def test_input_that_is_no_terminal_has_an_end(cluster: Cluster) -> None:
    reading, writing = os.pipe()
    out, theirs = os.pipe()
    with attached(cluster, reading, theirs, "--args", "wc,-c") as process:
        os.close(reading)
        os.close(theirs)
        for _ in range(30):
            os.write(writing, bytes(10_000))
        os.close(writing)
        read_until(out, lambda text: "300000" in text)
        assert process.wait(NODE_TIMEOUT) == 0
    os.close(out)


def test_signals_reach_it(cluster: Cluster) -> None:
    reading, writing = os.pipe()
    out, theirs = os.pipe()
    script = "trap 'echo got it; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    with attached(cluster, reading, theirs, "--args", f"sh,-c,{script}") as process:
        os.close(theirs)
        read_until(out, lambda text: "ready" in text)
        process.terminate()
        read_until(out, lambda text: "got it" in text)
        assert process.wait(NODE_TIMEOUT) == 0
    for end in (reading, writing, out):
        os.close(end)


def test_a_pulled_image_stays_and_wrong_ones_are_one_line(cluster: Cluster) -> None:
    node = ("-n", cluster.addresses[0])
    name = find_name()
    done = cluster.talosctl(*node, "debug", name, "--args", "echo,hello", "--namespace", "system")
    assert done.stdout == "hello\n"
    assert name in list_images(cluster, "system")
    cluster.talosctl(*node, "image", "remove", name, "--namespace", "system")
    done = cluster.talosctl(*node, "debug", str(find_archive()), "--args", "/nonsense", check=False)
    assert done.returncode != 0
    assert "/nonsense" in done.stderr
    assert done.stderr.count("error") >= 1
    assert "Traceback" not in done.stderr
