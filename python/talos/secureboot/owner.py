"""The public parts of an owner's keys in a folder, checked: ``secureBoot`` of ``lib.image``.

A build runs it, so nothing private may be in it.
"""

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from talos.secureboot.enrolment import VARIABLES, find_variables
from talos.secureboot.keys import CERTIFICATE, POLICY_PUBLIC, read_certificate, read_policy_public
from talos.system.errors import UserError

FILES = {
    "certificate": CERTIFICATE,
    "pcrKey": POLICY_PUBLIC,
    **dict(zip(("pk", "kek", "db"), VARIABLES, strict=True)),
}
"""What the parts are named in the folder, as `talosctl gen secureboot` does, by their names as options."""


def write_folder(out: Path, parts: Mapping[str, Path]) -> None:
    """Copy the parts into a new folder. UserError for what signs or enrolls nothing, OSError."""
    out.mkdir()
    for name, path in parts.items():
        shutil.copyfile(path, out / FILES[name])
    certificate, _ = read_certificate(out / CERTIFICATE)
    if "pcrKey" in parts:
        read_policy_public(out / POLICY_PUBLIC)
    find_variables(out, certificate)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the folder."""
    parser = argparse.ArgumentParser(prog="owner")
    for name in FILES:
        parser.add_argument(f"--{name}", type=Path, required=name == "certificate")
    parser.add_argument("out", type=Path)
    options = parser.parse_args(argv)
    parts = {name: path for name in FILES if (path := getattr(options, name))}
    try:
        write_folder(options.out, parts)
    except (UserError, OSError) as error:
        sys.stderr.write(f"lib.image: secureBoot: {error}\n")
        return 1
    return 0
