"""Compile the programs of one set, and the tests of packages, each into one more program `NAME.test`.

Beside build.py, which is an input of the node's programs: a change of this file compiles none of them anew.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

spec = importlib.util.spec_from_file_location("recipe", os.environ["recipe"])
assert spec is not None
assert spec.loader is not None
recipe = importlib.util.module_from_spec(spec)
spec.loader.exec_module(recipe)


def list_packages(env: dict[str, str], *argv: str) -> int:
    """Return how many packages are to be compiled."""
    command = ["go", "list", "-deps", "-tags", env["tags"], *argv]
    listed = subprocess.run(command, cwd=recipe.WORK, env=env, capture_output=True, text=True, check=False)
    if listed.returncode:
        raise SystemExit(f"go list ended with {listed.returncode}:\n{listed.stderr}")
    return len(listed.stdout.splitlines())


def build_test(package: str, out: Path, env: dict[str, str]) -> None:
    """Compile and link the tests of one package, with the flags that programs have."""
    words = [f"-X {symbol}={value}" for symbol, value in json.loads(env["stamps"]).items()]
    flags = " ".join(["-s", "-w", "-buildid=", *words])
    # Without vet, which would analyze every package once more.
    command = ["go", "test", "-c", "-vet=off", "-tags", env["tags"], "-ldflags", flags, "-o", str(out)]
    subprocess.run([*command, package], cwd=recipe.WORK, env=env, check=True)


def main() -> None:
    """Compile all programs, then the tests, which take what the programs share with them from the cache."""
    recipe.make_proxy(json.loads(Path(os.environ["modulesPath"]).read_text()))
    env = recipe.environment(os.environ["toolchain"])
    shutil.copytree(os.environ["folder"], recipe.WORK)
    programs, tests = json.loads(env["programs"]), json.loads(env["tests"])
    progress = recipe.Progress(list_packages(env, *(program["package"] for program in programs.values())))
    since = time.monotonic()
    for name, each in {**programs, **tests}.items():
        out = Path(each["out"]) / "bin" / (f"{name}.test" if name in tests else name)
        out.parent.mkdir(parents=True)
        if name in tests:
            print(f"{name}: {list_packages(env, '-test', each['package'])} packages", flush=True)
            build_test(each["package"], out, env)
        else:
            recipe.build(each["package"], out, env, progress)
        print(f"{out.name}: {out.stat().st_size / 1e6:.1f} MB, {time.monotonic() - since:.0f} s", flush=True)


main()
