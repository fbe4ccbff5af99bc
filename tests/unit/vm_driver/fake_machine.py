"""A machine whose QEMU is a program that answers its protocol, and may lose a timer."""

import sys
from pathlib import Path

from driver.accelerator import Accelerator
from driver.assets import Assets
from driver.machine import Machine, MachineContext
from driver.node import Node
from driver.programs import Programs
from driver.retry import TimeoutScale

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
    """A QEMU of this program."""

    @property
    def qemu(self) -> list[str]:
        return list(self.roots[0].read_text().splitlines())


def make_machine(folder: Path, *, stalls: int = 0) -> Machine:
    """A machine that is off; ``stalls`` of its starts lose a timer."""
    program, command = folder / "qemu.py", folder / "command"
    program.write_text(QEMU)
    command.write_text("\n".join([sys.executable, str(program), str(folder / "starts"), str(stalls)]))
    around = MachineContext(
        programs=FakePrograms((command,)),
        assets=Assets({}),
        accelerator=Accelerator(name="emulation", argv=(), factor=1, is_emulated=True),
        timeout_scale=TimeoutScale(),
        folder=folder,
        talosctl=Path("/bin/false"),
        show=lambda _: None,
    )
    return Machine("node", Node(boot="bios"), around, index=1, ports={50000: 1})
