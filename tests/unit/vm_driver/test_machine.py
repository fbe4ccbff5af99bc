"""A machine that is started anew: only at its first start, before it had a request."""

import sys
from pathlib import Path

import pytest
from driver.accelerator import Accelerator
from driver.assets import Assets
from driver.failure import Failed, Stalled
from driver.machine import Machine, Surroundings
from driver.node import Node
from driver.programs import Programs
from driver.retry import Patience

LOST_TIMER = "rcu: rcu_sched kthread timer wakeup didn't happen for 5254 jiffies!"
QEMU = """\
import socket, sys, threading, time
path = next(word for word in sys.argv if word.startswith("unix:")).removeprefix("unix:").partition(",")[0]
door = socket.socket(socket.AF_UNIX)
door.bind(path)
door.listen()
line, _ = door.accept()
line.recv(4096)
line.sendall(b'{"return": {}}\\n')
starts = open(sys.argv[1], "a+")
starts.seek(0)
number = len(starts.readlines()) + 1
starts.write("start\\n")
starts.flush()
if number <= int(sys.argv[2]):
    print("LOST_TIMER", flush=True)
else:
    print("it runs", flush=True)
time.sleep(60)
""".replace("LOST_TIMER", LOST_TIMER)


class FakePrograms(Programs):
    """A QEMU that answers its protocol, and whose first machines lose a timer."""

    @property
    def qemu(self) -> list[str]:
        return list(self.roots[0].read_text().splitlines())


def make_machine(folder: Path, *, stalls: int) -> Machine:
    program, command = folder / "qemu.py", folder / "command"
    program.write_text(QEMU)
    command.write_text("\n".join([sys.executable, str(program), str(folder / "starts"), str(stalls)]))
    around = Surroundings(
        programs=FakePrograms((command,)),
        assets=Assets({}),
        accelerator=Accelerator(name="emulation", argv=(), factor=1, is_emulated=True),
        patience=Patience(),
        folder=folder,
        talosctl=Path("/bin/false"),
        show=lambda _: None,
    )
    return Machine("node", Node(boot="bios"), around, index=1, ports={50000: 1})


def count_starts(folder: Path) -> int:
    return len((folder / "starts").read_text().splitlines())


def test_its_first_start_is_repeated_once(tmp_path: Path) -> None:
    machine = make_machine(tmp_path, stalls=1)
    machine.start()
    try:
        with pytest.raises(Failed, match="API listens"):
            machine.wait_for_port(2)
        assert count_starts(tmp_path) == 2
        assert LOST_TIMER in machine.started_anew
    finally:
        machine.close()


def test_a_second_stall_is_the_test_s(tmp_path: Path) -> None:
    machine = make_machine(tmp_path, stalls=2)
    machine.start()
    try:
        with pytest.raises(Stalled):
            machine.wait_for_port(30)
        assert count_starts(tmp_path) == 2
    finally:
        machine.close()


def test_not_after_it_had_a_request(tmp_path: Path) -> None:
    machine = make_machine(tmp_path, stalls=1)
    machine.start()
    machine.client.run("apply-config", check=False)
    try:
        with pytest.raises(Stalled):
            machine.wait_for_port(30)
        assert count_starts(tmp_path) == 1
    finally:
        machine.close()
