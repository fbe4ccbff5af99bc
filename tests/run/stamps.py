"""What passed on this machine, with exactly which inputs: it is not repeated until one of them changes.

Checks of the flake need none of this, as Nix does the same for them.
"""

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.run.job import Counts, Job, Outcome, State
from tests.run.process import REPOSITORY

GENERATED = re.compile(r"(^|/)(__pycache__|\.[a-z]+_cache)/|_pb2\.pyi?$")
"""Python's and the tools' caches; what `make api` writes, of which suites have the path in the store."""


def make_key(
    job: Job, store_paths: Mapping[str, str], sources: Sequence[str], repository: Path = REPOSITORY
) -> str:
    """A digest of what a suite is made of: its command, paths in the store, the content of sources.

    Raises ValueError when there is nothing at a source: it has been renamed, and is an input no more.
    """
    digest = hashlib.sha256(json.dumps([job.command, sorted(store_paths.items())]).encode())
    for file in find_files(sources, repository):
        content = file.read_bytes()
        mode = file.stat().st_mode & 0o111
        digest.update(f"{file.relative_to(repository)}\0{mode}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def find_files(sources: Sequence[str], repository: Path) -> list[Path]:
    """The files of these files and folders, without what is generated there."""
    found = set[Path]()
    for source in sources:
        path = repository / source
        if not path.exists():
            raise ValueError(f"tests/run/jobs.py: there is no {source}")
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        found.update(file for file in files if not GENERATED.search(str(file.relative_to(repository))))
    return sorted(found)


def write_stamp(outcome: Outcome, key: str, folder: Path) -> None:
    """Remember that a job passed."""
    folder.mkdir(parents=True, exist_ok=True)
    counts = outcome.counts
    record = {
        "key": key,
        "passed": counts.passed,
        "skipped": counts.skipped,
        "seconds": round(outcome.seconds, 1),
        "when": time.strftime("%Y-%m-%d %H:%M"),
    }
    (folder / f"{outcome.job.name}.json").write_text(json.dumps(record) + "\n", encoding="utf-8")


def read_stamp(job: Job, key: str, folder: Path) -> Outcome | None:
    """What came of a job when it last passed; None unless that was with this key."""
    try:
        record = json.loads((folder / f"{job.name}.json").read_text(encoding="utf-8"))
        if record["key"] != key:
            return None
        return Outcome(
            job=job,
            state=State.UNCHANGED,
            reason=f"passed on {record['when']} in {record['seconds']:.0f} s",
            counts=Counts(passed=record["passed"], skipped=record["skipped"]),
        )
    except (OSError, ValueError, KeyError):
        return None
