"""Run a VM test, or give its machines to a person: ``python -m driver TEST --asset name=path ...``."""

import argparse
import code
import shutil
import sys
import tempfile
from pathlib import Path

from driver.accelerator import find_accelerator
from driver.assets import Assets
from driver.attempts import Outcome, run_test
from driver.programs import Programs
from driver.script import Script, load_script
from driver.world import World

BANNER = """
{title}
The machines are off: {names}. Type
  {first}.start()                      switch on; the console appears here and in {folder}
  {first}.wait_for_api(insecure=True)  ... and everything else that a test may call: docs/vm-tests.md
  test(world)                          the test itself
  exit()                               switch everything off"""


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="driver", description="Run a test on virtual machines.")
    parser.add_argument("test", type=Path, help="the test's file or folder")
    parser.add_argument("--name", help="the test's name, when the file has another")
    parser.add_argument(
        "--report",
        type=Path,
        help="what to write when the test has passed: a file, or a folder with what it saves",
    )
    parser.add_argument("--asset", action="append", default=[], metavar="NAME=PATH", help="what is tested")
    parser.add_argument("--root", action="append", default=[], type=Path, help="where QEMU and its like are")
    parser.add_argument("--talosctl", type=Path, required=True)
    parser.add_argument("--folder", type=Path, help="for disks and logs; kept. A temporary one otherwise")
    parser.add_argument("--interactive", action="store_true", help="give a Python prompt instead")
    return parser.parse_args(argv)


def interact(script: Script, world: World, folder: Path) -> None:
    """Give the machines to a person, or to what is piped in."""
    names = {name.replace("-", "_"): machine for name, machine in world.items()}
    first = next(iter(names))
    banner = BANNER.format(title=script.title, names=", ".join(names), first=first, folder=folder)
    local = {**names, "world": world, "test": script.test, "web": world.web}
    code.interact(banner=banner, local=local, exitmsg="")


def write_report(outcome: Outcome, path: Path) -> None:
    """Write the report of a test that has passed: a file, or a folder with it and what the test has saved."""
    if outcome.saved:
        shutil.copytree(outcome.saved, path)
        path /= "report"
    path.write_text(outcome.report())


def main() -> int:
    """Set up, run, and clean up whatever happened."""
    arguments = parse_arguments(sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="vm-") as temporary:
        folder = (arguments.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        assets = Assets({name: Path(path) for name, path in (word.split("=", 1) for word in arguments.asset)})
        programs = Programs(tuple(arguments.root))
        script = load_script(arguments.test, arguments.name)
        accelerator = find_accelerator(programs, folder)
        sys.stdout.write(
            f"{script.title}\nprocessors: {accelerator.name}, times x {accelerator.factor:.1f}\n"
        )

        def make_world(attempt: int) -> World:
            return World(
                script.nodes,
                programs=programs,
                assets=assets,
                accelerator=accelerator,
                folder=folder / f"attempt-{attempt}" if attempt > 1 else folder,
                talosctl=arguments.talosctl,
            )

        if arguments.interactive:
            world = make_world(1)
            try:
                interact(script, world, folder)
            finally:
                world.close()
            return 0
        outcome = run_test(script, make_world, arguments.test)
        if outcome.passed and arguments.report:
            write_report(outcome, arguments.report)
        return 0 if outcome.passed else 1


sys.exit(main())
