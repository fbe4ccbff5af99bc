"""Compile the programs of one set, each into an output of its name, with one compiled cache.

The modules come from a folder in the form of a proxy, and go.sum holds their hashes once more. Nothing of the
build's place, time or machine gets into the programs.
"""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from trim import unpack_trimmed

PROXY, WORK = Path("/build/proxy"), Path("/build/work")
STEP = 0.05  # of the packages, between two lines of progress


def make_proxy(modules: list[dict[str, Any]]) -> None:
    """Lay the locked files out as the go command asks a proxy for them; it writes capitals as !small."""
    for module in modules:
        path, version = (
            re.sub("[A-Z]", lambda found: "!" + found[0].lower(), module[key]) for key in ("path", "version")
        )
        folder = PROXY / path / "@v"
        folder.mkdir(parents=True, exist_ok=True)
        for suffix in ("zip", "mod"):
            (folder / f"{version}.{suffix}").symlink_to(module[suffix])


def environment(root: str) -> dict[str, str]:
    """Static programs, offline, with two processors: others may work on the machine too."""
    folders = {"GOCACHE": "/build/cache", "GOMODCACHE": "/build/modules", "TMPDIR": "/build/tmp"}
    for folder in folders.values():
        Path(folder).mkdir()
    return {
        **os.environ,
        **folders,
        "PATH": f"{root}/bin:{os.environ['PATH']}",
        "CGO_ENABLED": "0",
        "GO111MODULE": "on",
        "GOAMD64": "v1",
        "GOARCH": "amd64",
        "GOFLAGS": "-mod=readonly -modcacherw -trimpath -buildvcs=false -p=2",
        "GOMAXPROCS": "2",
        "GOOS": "linux",
        "GOPROXY": f"file://{PROXY}",
        "GOROOT": root,
        "GOSUMDB": "off",
        "GOTELEMETRY": "off",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


class Progress:
    """Counts the packages that the compiler lists, over all programs of the set."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.shown, self.since = total, 0, 0.0, time.monotonic()

    def count(self) -> None:
        """Count one package, and print a line when a twentieth more of all is there."""
        self.done += 1
        if self.done / self.total >= self.shown + STEP:
            self.shown = self.done / self.total
            print(f"{self.done} of {self.total} packages, {time.monotonic() - self.since:.0f} s", flush=True)


def build(package: str, out: Path, env: dict[str, str], progress: Progress) -> None:
    """Compile and link one program. Lines that are no package's name are the compiler's errors."""
    words = [f"-X {symbol}={value}" for symbol, value in json.loads(env["stamps"]).items()]
    flags = " ".join(["-s", "-w", "-buildid=", *words])
    command = ["go", "build", "-v", "-tags", env["tags"], "-ldflags", flags, "-o", str(out), package]
    with subprocess.Popen(command, cwd=WORK, env=env, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if re.fullmatch(r"[\w./~+-]+\n", line):
                progress.count()
            else:
                print(line, end="", flush=True)
    if running.returncode:
        raise SystemExit(f"go build {package} ended with {running.returncode}")


def main() -> None:
    """Compile all programs."""
    modules = json.loads(Path(os.environ["modulesPath"]).read_text())
    make_proxy(modules)
    programs: dict[str, dict[str, str]] = json.loads(os.environ["programs"])
    env = environment(os.environ["toolchain"])
    shutil.copytree(os.environ["folder"], WORK)
    if trim := json.loads(os.environ["trim"]):
        archives = {f"{module['path']}@{module['version']}": module["zip"] for module in modules}
        unpack_trimmed(Path(archives[trim["module"]]), trim, WORK)
    packages = [program["package"] for program in programs.values()]
    command = ["go", "list", "-deps", "-tags", env["tags"], *packages]
    listed = subprocess.run(command, cwd=WORK, env=env, capture_output=True, text=True, check=False)
    if listed.returncode:
        raise SystemExit(f"go list ended with {listed.returncode}:\n{listed.stderr}")
    progress = Progress(len(listed.stdout.splitlines()))
    for name, program in programs.items():
        out = Path(program["out"]) / "bin" / name
        out.parent.mkdir(parents=True)
        build(program["package"], out, env, progress)
        seconds = time.monotonic() - progress.since
        print(f"{name}: {out.stat().st_size / 1e6:.1f} MB, {seconds:.0f} s", flush=True)


main()
