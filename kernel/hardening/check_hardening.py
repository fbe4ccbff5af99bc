"""Score the kernel's configuration, arguments and sysctls, and hold them to accepted.toml.

Every row that fails in kernel-hardening-checker must be accepted with a reason, and every accepted row must
still fail: a reason that has outlived its row would excuse the next one of that name.
"""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SECTIONS = {"kconfig": "config", "cmdline": "cmdline", "sysctl": "sysctl"}
"""What the checker calls a row's kind, and the section of accepted.toml."""
SCORE = "[+] Config check is finished"
CHECKER = "from kernel_hardening_checker import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row that the checker judged. `name` is without `CONFIG_`."""

    section: str
    name: str
    desired: str
    result: str

    @property
    def is_failed(self) -> bool:
        """The result is a word and its reason."""
        return not self.result.startswith("OK")


def parse_rows(text: str) -> list[Row]:
    """Read the checker's JSON."""
    return [
        Row(
            section=SECTIONS[row["type"]],
            name=row["option_name"].removeprefix("CONFIG_"),
            desired=row["desired_val"],
            result=row["check_result"],
        )
        for row in json.loads(text)
        if row["type"] in SECTIONS
    ]


def check_rows(rows: Sequence[Row], accepted: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Print what is wrong, a line each."""
    failed = {(row.section, row.name): row for row in rows if row.is_failed}
    known = {(section, name): reason for section, names in accepted.items() for name, reason in names.items()}
    lines = [
        f"[{section}] {name}: {row.result}, the checker wants {row.desired!r}: "
        "set it, or accept it in kernel/accepted.toml with the reason"
        for (section, name), row in failed.items()
        if (section, name) not in known
    ]
    lines += [
        f"[{section}] {name} no longer fails: take it out of kernel/accepted.toml"
        for section, name in known
        if (section, name) not in failed
    ]
    return lines + [
        f"[{section}] {name} is accepted without a reason: write one into kernel/accepted.toml"
        for (section, name), reason in known.items()
        if not reason.strip()
    ]


def run_checker(*argv: str) -> str:
    """Run the checker; it imports nothing outside the standard library."""
    return subprocess.run(
        [sys.executable, "-c", CHECKER, *argv], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def score(*argv: str) -> str:
    """Give the checker's own closing line."""
    return next(line for line in reversed(run_checker(*argv).splitlines()) if line.startswith(SCORE))


def main() -> int:
    """Check $config, $cmdline and $sysctl against $accepted; the output goes to $out."""
    folder = Path(os.environ["NIX_BUILD_TOP"])
    arguments, settings = folder / "arguments", folder / "settings"
    arguments.write_text(" ".join(Path(os.environ["cmdline"]).read_text().split()) + "\n")
    lines = Path(os.environ["sysctl"]).read_text().splitlines()
    settings.write_text("".join(f"{line}\n" for line in lines if not line.startswith("#")))
    alone = ["-c", os.environ["config"]]
    everything = [*alone, "-l", str(arguments), "-s", str(settings)]
    rows = parse_rows(run_checker("-m", "json", *everything))
    accepted = tomllib.loads(Path(os.environ["accepted"]).read_text())
    wrong = check_rows(rows, accepted)
    report = "\n".join(
        [
            "rows that fail, each accepted for the reason in kernel/accepted.toml:",
            *(
                f"  {row.section:8} {row.name:36} {accepted.get(row.section, {}).get(row.name, '')}"
                for row in rows
                if row.is_failed
            ),
            "the configuration alone:",
            score(*alone),
            "the configuration, the kernel arguments and the sysctls:",
            score(*everything),
        ]
    )
    if wrong:
        print(report, *wrong, sep="\n", file=sys.stderr)
        return 1
    Path(os.environ["out"]).write_text(f"{report}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
