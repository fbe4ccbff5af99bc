"""Writes the hashes of what this flake has built, and compares them with another machine's; `make hashes`.

A row is a package's name, the hash of its content (of the NAR), its store path. Equal paths mean equal inputs;
equal hashes then mean that two machines made the same bytes.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ATTRIBUTE = ".#packages.x86_64-linux"
MISSING = "-"
"""Instead of the hash of what is not built."""
FIELDS = 3


class HashesError(Exception):
    """One line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What was built. ``hash`` is "-" where it was not."""

    name: str
    path: str
    hash: str


def run(*argv: str, may_fail: bool = False) -> str:
    """What a command prints; HashesError."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode and not may_fail:
        raise HashesError(f"`{' '.join(argv[:3])} …`: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout.strip() if not done.returncode else ""


def read_store() -> list[Row]:
    """The hashes that the store has of every package of the flake."""
    paths = json.loads(run("nix", "eval", ATTRIBUTE, "--json", "--apply", "builtins.mapAttrs (_: p: p.outPath)"))
    return [
        Row(name=name, path=path, hash=run("nix-store", "--query", "--hash", path, may_fail=True) or MISSING)
        for name, path in sorted(paths.items())
    ]


def format_rows(rows: Sequence[Row]) -> str:
    """The table, which :func:`parse_rows` reads."""
    width = max(len(row.name) for row in rows)
    return "".join(f"{row.name:{width}}  {row.hash:59}  {row.path}\n" for row in rows)


def parse_rows(text: str, where: str) -> dict[str, Row]:
    """The rows of a table by name; HashesError."""
    rows: dict[str, Row] = {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if len(fields) != FIELDS or not fields[2].startswith("/nix/store/"):
            raise HashesError(f"{where}:{number}: is no row of `make hashes`: {line[:80]!r}")
        rows[fields[0]] = Row(name=fields[0], hash=fields[1], path=fields[2])
    return rows


def compare(mine: dict[str, Row], other: dict[str, Row]) -> tuple[list[str], int]:
    """What differs, in words, and how many were built on both machines from the same inputs."""
    problems: list[str] = []
    compared = 0
    for name in sorted(mine.keys() | other.keys()):
        first, second = mine.get(name), other.get(name)
        if first is None or second is None or MISSING in (first.hash, second.hash):
            continue
        if first.path != second.path:
            problems.append(f"{name}: is made of other inputs: {first.path} here, {second.path} there; is it the same commit?")
            continue
        compared += 1
        if first.hash != second.hash:
            problems.append(f"{name}: {first.hash} here, {second.hash} there: the builds differ")
    return problems, compared


def main(argv: Sequence[str] | None = None) -> int:
    """Write the table, compare it."""
    parser = argparse.ArgumentParser(prog="hashes")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("other", type=Path, nargs="?", help="the table of another machine")
    options = parser.parse_args(argv)
    try:
        rows = read_store()
        text = format_rows(rows)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")
        sys.stdout.write(text)
        if options.other is None:
            return 0
        other = parse_rows(options.other.read_text(encoding="utf-8", errors="replace"), str(options.other))
    except (HashesError, OSError) as error:
        sys.stderr.write(f"hashes: {error}\n")
        return 1
    problems, compared = compare({row.name: row for row in rows}, other)
    for problem in problems:
        sys.stderr.write(f"hashes: {problem}\n")
    sys.stdout.write(f"{compared} packages were built on both machines, {len(problems)} differ\n")
    return int(bool(problems) or not compared)


if __name__ == "__main__":
    raise SystemExit(main())
