"""talosctl against several machines at once: over the API of any of them, to each by its address."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from driver.client import Client
from driver.clock import CLOCK
from driver.failure import VmTestError
from driver.machine import Machine
from driver.process import end_process, start_process
from driver.retry import POLL_INTERVAL

POINT_INTERVAL = 0.1
"""Seconds between two checks whether an upgrade has reached a point at which a test acts."""
UNANSWERED = re.compile(r"no answer within .*\(nothing has been changed\)")
"""What a command ends with whose first calls machines did not answer in time: emulated ones may be slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What ``talosctl upgrade`` of several machines did: its exit code, and each one's row by its address."""

    code: int
    reason: str
    rows: dict[str, dict[str, object]]
    output: str

    def results(self) -> list[object]:
        """What became of each machine, in the order of the upgrade."""
        return [row["result"] for row in self.rows.values()]


class Upgrade:
    """A running ``talosctl upgrade``; its end is by the clock of the programs under test."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, end: float) -> None:
        self._process, self._folder, self._end = process, folder, end

    @property
    def output(self) -> str:
        """What it has reported."""
        return (self._folder / "stderr").read_text(errors="replace")

    def ended_unanswered(self) -> bool:
        """Wait until it reports anything; whether it has ended without a change, as there was no answer."""
        while self._process.poll() is None and "\n" not in self.output:
            self._check_time("the upgrade began")
            time.sleep(POLL_INTERVAL)
        return UNANSWERED.search(self.output) is not None and not self.finish().rows

    def wait_for(self, pattern: str) -> None:
        """Wait until it has reported this."""
        self._wait_until(f"it reported /{pattern}/", pattern, lambda: self.output)

    def wait_for_console_text(self, machine: Machine, pattern: str) -> None:
        """Wait until it has come so far that a machine's console shows this."""
        self._wait_until(f"{machine.name}'s console showed /{pattern}/", pattern, machine.console.text)

    def _wait_until(self, what: str, pattern: str, read: Callable[[], str]) -> None:
        wanted = re.compile(pattern)
        while True:
            has_ended = self._process.poll() is not None
            if wanted.search(read()):
                return
            if has_ended:
                raise VmTestError(f"the upgrade ended before {what}:\n{self.output}")
            self._check_time(what)
            time.sleep(POINT_INTERVAL)

    def finish(self) -> Outcome:
        """Wait for its end."""
        while self._process.poll() is None:
            self._check_time("the upgrade ended")
            time.sleep(POLL_INTERVAL)
        code, text = self._process.returncode, (self._folder / "stdout").read_text()
        if not text.strip():  # it was refused
            return Outcome(code=code, reason=self.output, rows={}, output=self.output)
        document = cast("dict[str, object]", json.loads(text))
        rows = {str(row["node"]): row for row in cast("list[dict[str, object]]", document["nodes"])}
        table = [
            f"{row['hostname']}: {row['result']}, unavailable {row['secondsUnavailable']} s"
            for row in rows.values()
        ]
        output = "\n".join([self.output.rstrip(), *table])
        return Outcome(code=code, reason=str(document["reason"]), rows=rows, output=output)

    def _check_time(self, what: str) -> None:
        if CLOCK.now() > self._end:
            end_process(self._process)
            raise VmTestError(f"the time was over before {what}:\n{self.output}")


class Fleet:
    """The machines of a cluster, which have addresses on a network of their own."""

    def __init__(
        self, machines: Sequence[Machine], folder: Path, *, endpoints: Sequence[Machine] = ()
    ) -> None:
        """All of them accept the same client; the commands' output is kept below the folder.

        ``endpoints`` are those that the way leads over, all when none are given.
        """
        self.machines, self._folder, first = machines, folder, machines[0]
        self._client = Client(
            first.client.program,
            first.client.port,
            first.folder,
            endpoints=",".join(f"127.0.0.1:{machine.client.port}" for machine in endpoints or machines),
            nodes=",".join(machine.node.address for machine in machines),
        )
        self._client.talosconfig = first.client.talosconfig

    def without(self, machine: Machine) -> "Fleet":
        """The same machines by a way that leads not over this one."""
        others = [one for one in self.machines if one is not machine]
        return Fleet(self.machines, self._folder, endpoints=others)

    def begin_upgrade(self, image: str, *, seconds: float) -> Upgrade:
        """Begin to upgrade all machines by one command; ``seconds`` are those of emulated processors.

        A command without an answer has changed nothing, and is given again.
        """
        end = CLOCK.now() + self.machines[0].timeout_scale.seconds(seconds)
        upgrade = self._start_upgrade(image, end)
        while upgrade.ended_unanswered():
            upgrade = self._start_upgrade(image, end)
        return upgrade

    def _start_upgrade(self, image: str, end: float) -> Upgrade:
        folder = self._folder / f"upgrade-{len(list(self._folder.glob('*')))}"
        folder.mkdir(parents=True)
        argv = self._client.argv(["upgrade", "--image", image, "-o", "json"], insecure=False)
        with (folder / "stdout").open("wb") as stdout:
            process = start_process(
                argv, log=folder / "stderr", stdout=stdout.fileno(), env=self._client.environment
            )
        return Upgrade(process, folder, end)

    def upgrade(self, image: str, *, seconds: float) -> Outcome:
        """The same, to its end."""
        return self.begin_upgrade(image, seconds=seconds).finish()
