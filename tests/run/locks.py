"""Whether what is tested is made of the locks of the commit, or of newer ones from the archive."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.run.process import REPOSITORY

LOCKS = "pkgs/locks"
_WHEEL = re.compile(r"^(\S+)==(\S+) ", re.MULTILINE)


def describe_locks(repository: Path = REPOSITORY) -> list[str]:
    """One line, or a table of the commit's versions and those in the work tree with one line below it."""
    try:
        commit = _git(repository, "rev-parse", "--short", "HEAD").strip()
        names = _git(repository, "diff", "--name-only", "HEAD", "--", LOCKS).split()
        old = {name: _show(repository, name) for name in names}
    except (OSError, subprocess.CalledProcessError):
        return ["locks: there is no commit to compare them with"]
    if not names:
        return [f"locks: those of commit {commit}"]
    rows = [row for name in names for row in compare(name, old[name], _read(repository / name))]
    table = [f"{what:<40} {before:<32} {now}" for what, before, now in (("lock", commit, "tested"), *rows)]
    return [*table, f"locks: NOT those of commit {commit}: {len(rows)} differ, the table above has them"]


def compare(name: str, old: str, new: str) -> Iterator[tuple[str, str, str]]:
    """What differs between two texts of a lock: its name, the version before and after, "-" for none."""
    before, after = parse_versions(name, old), parse_versions(name, new)
    if before == after:
        yield name, "(hashes)", "(hashes)"
    for each in sorted(before.keys() | after.keys()):
        if before.get(each) != after.get(each):
            yield each, before.get(each, "-"), after.get(each, "-")


def parse_versions(name: str, text: str) -> Mapping[str, str]:
    """Versions by name, of Debian packages, wheels, or Go modules; none of a file that is none of these."""
    if name.endswith(".txt"):
        return dict(_WHEEL.findall(text))
    if not name.endswith(".json") or not text:
        return {}
    lock = json.loads(text)
    packages = {package: entry["version"] for package, entry in lock.get("packages", {}).items()}
    modules: dict[str, list[str]] = {}
    for module in lock.get("modules", {}):
        path, _, version = module.partition("@")
        modules.setdefault(path, []).append(version)
    return {**packages, **{path: ", ".join(sorted(versions)) for path, versions in modules.items()}}


def _show(repository: Path, name: str) -> str:
    try:
        return _git(repository, "show", f"HEAD:{name}")
    except subprocess.CalledProcessError:
        return ""  # new


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
    ).stdout
