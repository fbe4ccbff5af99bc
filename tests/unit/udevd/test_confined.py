"""udevd's view of this machine's devices with the privileges and in the sandbox that its row gives it."""

import json
import sys

import pytest

from talos.system.process import run_command

PROGRAM = """
import json, os, stat, sys
from functools import partial
from pathlib import Path
from talos.process.daemons import UDEVD
from talos.process.privileges import Privileges, drop_privileges, enter_sandbox
from talos.machined.services.zygote import make_private_view
from talos.system import kernel
from talos.system.block.ata import identify
from talos.system.block.sysfs import Sysfs
from talos.system.logging import Log
from talos.system.net.uevents import open_uevents
from talos.udevd import main
from talos.udevd.blocks import probe_safely
from talos.udevd.devices import Devices, Ports

os.unshare(os.CLONE_NEWNS)
kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
dev = Path("/dev")
kept = ("null", "urandom")
nodes = [path for path in dev.iterdir() if stat.S_ISBLK(path.stat().st_mode) or path.name in kept]
numbers = {path.name: (path.stat().st_mode, path.stat().st_rdev) for path in nodes}
kernel.mount("tmpfs", "/dev", "tmpfs", data="mode=0755")
for name, (mode, number) in numbers.items():
    os.mknod(dev / name, stat.S_IFMT(mode) | 0o600, number)
make_private_view(UDEVD.paths.writable, ())
kept = frozenset(UDEVD.capabilities)
drop_privileges("udevd", Privileges(uid=UDEVD.uid, gid=UDEVD.uid, capabilities=kept))
enter_sandbox(UDEVD.families, UDEVD.paths)
lines = []
ports = Ports(sysfs=Sysfs(), dev=dev, prober=partial(probe_safely, dev), identify=identify,
              rename=lambda old, new: "", log=Log(write=lines.append), rename_links=False)
devices = Devices(ports)
devices.scan()
def is_closed(path):
    try:
        os.open(path, os.O_RDONLY)
    except OSError as error:
        return error.errno in (1, 13)
    return False
blocks = [name for name in numbers if stat.S_ISBLK(numbers[name][0])]
print(json.dumps({
    "lines": lines,
    "found": sorted(devices.blocks),
    "nodes": sorted(blocks),
    "groups": sorted({(dev / name).stat().st_gid for name in blocks if name in devices.blocks}),
    "closed": [path for path in ("/root", "/var/log", "/home") if Path(path).exists() and is_closed(path)],
    "open": [path for path in ("/root", "/var/log", "/home") if Path(path).exists() and not is_closed(path)],
}))
"""


@pytest.mark.root
def test_devices_are_found_and_owned_but_nothing_else_is_opened() -> None:
    result = json.loads(run_command([sys.executable, "-c", PROGRAM]).stdout)
    assert not [line for line in result["lines"] if "ermission" in line or "not permitted" in line]
    assert set(result["found"]) >= set(result["nodes"]) - {"loop-control"}
    disk = 6
    assert result["groups"] in ([disk], [])
    assert result["open"] == [] or not result["closed"]  # a kernel without Landlock closes none
