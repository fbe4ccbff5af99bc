"""``make run-vm``: one machine with our ISO in its drive and a disk that is kept, until it is interrupted."""

import argparse
import signal
import sys
import threading
from pathlib import Path

from driver.accelerator import find_accelerator
from driver.assets import Assets
from driver.failure import VmTestError
from driver.node import Boot, Disk, Node
from driver.programs import Programs
from driver.world import World, free_port

PORT = 50000
NAME = "vm"
CLUSTER = """\
The machine's console follows; Ctrl-C switches it off, its disk stays in {folder}.
It first starts from the ISO into maintenance mode (emulated processors take a minute). In another terminal:

  {talosctl} get disks --insecure --nodes {address}
  {talosctl} gen config my-cluster https://10.0.2.15:6443 --additional-sans 127.0.0.1 \\
      --install-disk /dev/vda --output {folder}/config
  {talosctl} apply-config --insecure --nodes {address} --file {folder}/config/controlplane.yaml

It installs itself and restarts from its disk. Then:

  export TALOSCONFIG={folder}/config/talosconfig
  {talosctl} config endpoint {address} && {talosctl} config node 127.0.0.1
  {talosctl} service
"""


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="run-vm", description="Run one machine until it is interrupted.")
    parser.add_argument("--asset", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--root", action="append", default=[], type=Path)
    parser.add_argument("--talosctl", type=Path, required=True)
    parser.add_argument("--client", default="build/bin/talosctl", help="talosctl as it is to be typed")
    parser.add_argument("--folder", type=Path, default=Path("build/vm"), help="for the disk and logs")
    parser.add_argument("--port", type=int, default=0, help="of the API, on the loopback interface")
    parser.add_argument("--firmware", choices=("bios", "uefi"), default="bios")
    parser.add_argument("--disk", default="10G", help="size of the disk, when there is none yet")
    parser.add_argument("--memory", type=int, default=2048, help="MiB")
    return parser.parse_args(argv)


def choose_port(wanted: int) -> int:
    """The API's own port when it is free, so that it needs not be typed; else another."""
    if wanted:
        return wanted
    with (Path("/proc/net/tcp")).open(encoding="ascii") as table:
        used = {int(row.split()[1].rpartition(":")[2], 16) for row in list(table)[1:]}
    return free_port() if PORT in used else PORT


def main() -> int:
    """Start it, print what to type, wait."""
    arguments = parse_arguments(sys.argv[1:])
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    programs = Programs(tuple(arguments.root))
    firmware: Boot = arguments.firmware
    node = Node(
        boot=firmware,
        cdrom="iso",
        memory=arguments.memory,
        processors=2,
        disks={"system": Disk(size=arguments.disk)},
    )
    port = choose_port(arguments.port)
    over = threading.Event()

    def stop(_number: int, _frame: object) -> None:
        over.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    accelerator = find_accelerator(programs, folder)
    world = World(
        {NAME: node},
        programs=programs,
        assets=Assets({name: Path(path) for name, path in (word.split("=", 1) for word in arguments.asset)}),
        accelerator=accelerator,
        folder=folder.resolve(),
        talosctl=arguments.talosctl,
        ports={NAME: port},
    )
    address = "127.0.0.1" if port == PORT else f"127.0.0.1:{port}"
    sys.stdout.write(f"processors: {accelerator.name}; the API: 127.0.0.1:{port}\n")
    sys.stdout.write(CLUSTER.format(folder=folder, talosctl=arguments.client, address=address) + "\n")
    sys.stdout.flush()
    machine = world[NAME]
    try:
        machine.start()
        while machine.is_on and not over.wait(1):
            pass
    except VmTestError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        world.close()
    sys.stdout.write("the machine is off\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
