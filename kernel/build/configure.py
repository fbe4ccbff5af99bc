"""Merge the fragments onto allnoconfig; fail with every symbol that did not stick."""

import os
import re
import sys
from pathlib import Path

from tree import add_alternatives, run_make, unpack_source


def parse_symbols(text: str) -> dict[str, str]:
    """The symbols that a config or a fragment sets, without the ``CONFIG_`` prefix."""
    return dict(re.findall(r"^CONFIG_(\w+)=(.*)$", text, re.MULTILINE))


def main() -> None:
    """Write $out, a complete configuration."""
    fragments = [Path(path) for path in os.environ["fragments"].split()]
    asked: dict[str, str] = {}
    for fragment in fragments:
        for symbol, value in parse_symbols(fragment.read_text()).items():
            if asked.setdefault(symbol, value) != value:
                sys.exit(f"{fragment.name}: {symbol}={value} was asked as {asked[symbol]} before")
    add_alternatives()
    tree = unpack_source()
    merged = Path("asked.config").absolute()
    merged.write_text("".join(f"CONFIG_{symbol}={value}\n" for symbol, value in asked.items()))
    run_make(tree, f"KCONFIG_ALLCONFIG={merged}", "allnoconfig")
    config = (tree / ".config").read_text()
    got = parse_symbols(config)
    missed = [(s, v, got.get(s, "n")) for s, v in asked.items() if got.get(s, "n") != v]
    for symbol, value, found in missed:
        print(
            f"{symbol}: asked {value}, got {found}: a dependency is missing, or the symbol is gone",
            file=sys.stderr,
        )
    if missed:
        sys.exit(f"{len(missed)} of {len(asked)} symbols did not stick")
    print(f"{len(asked)} symbols asked, {sum(v == 'y' for v in got.values())} built in")
    Path(os.environ["out"]).write_text(config)


main()
