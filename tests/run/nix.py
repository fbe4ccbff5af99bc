"""What Nix would build for the tests, and which of it the store has already."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from tests.run.process import REPOSITORY

SYSTEM = "x86_64-linux"
# Paths alone: their contexts would have Nix build them.
_CHECKS = "builtins.mapAttrs (_: check: [ (D check.drvPath) (D check.outPath) ])"
_PACKAGES = "set: builtins.mapAttrs (_: package: D package.outPath) { inherit (set) %s; }"


class NixError(Exception):
    """What Nix wrote when it ended with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A flake check."""

    derivation: str
    output: str


def evaluate(packages: Sequence[str]) -> tuple[dict[str, Check], dict[str, str]]:
    """The flake's checks by name, and the paths of these packages in the store. Builds nothing."""
    started = [_start_eval("checks", _CHECKS), _start_eval("packages", _PACKAGES % " ".join(packages))]
    checks: dict[str, list[str]]
    paths: dict[str, str]
    checks, paths = (json.loads(_read_text(process)) for process in started)
    return {name: Check(derivation=pair[0], output=pair[1]) for name, pair in checks.items()}, paths


def find_valid(paths: Sequence[str]) -> set[str]:
    """Those of these paths that the store has."""
    if not paths:
        return set()
    output = _read_text(_start(["nix-store", "--check-validity", "--print-invalid", *paths]))
    return set(paths) - set(output.split())


def read_log(derivation: str) -> list[str]:
    """What was written when a derivation was built; nothing when the log is gone."""
    try:
        return _read_text(_start(["nix-store", "--read-log", derivation])).splitlines()
    except NixError:
        return []


def find_inputs(derivation: str) -> list[str]:
    """The derivations that this one is built from directly."""
    output = _read_text(_start(["nix-store", "--query", "--references", derivation]))
    return sorted({line for line in output.split() if line.endswith(".drv")})


def _start_eval(attribute: str, function: str) -> subprocess.Popen[str]:
    function = f"let D = builtins.unsafeDiscardStringContext; in {function}"
    # Two at once that share the cache of evaluations break each other.
    argv = ["nix", "eval", "--option", "eval-cache", "false", "--json"]
    return _start([*argv, f".#{attribute}.{SYSTEM}", "--apply", function])


def _start(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _read_text(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate()
    if process.returncode:
        raise NixError(errors.strip())
    return output
