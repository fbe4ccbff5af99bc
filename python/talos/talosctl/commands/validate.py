"""``talosctl validate``."""

from talos.config.check.validate import Mode, validate
from talos.config.problem import ConfigError
from talos.config.read.loader import load
from talos.system.errors import UserError
from talos.system.files import read_file
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.output import console

MODES = tuple(mode.value for mode in Mode)


def run_validate(invocation: Invocation) -> int:
    """Report everything that is wrong with a config, or that it is valid."""
    flags = invocation.flags
    path, mode = flags.text("config"), flags.text("mode").lower()
    if mode not in MODES:
        raise UserError(f'there is no mode "{mode}"', where="--mode", hint=f"use {', '.join(MODES)}")
    report = validate(load(read_file(path), source=path), Mode(mode))
    for problem in report.warnings:
        console.note(f"WARNING: {problem}")
    errors = (*report.errors, *(report.warnings if flags.is_set("strict") else ()))
    if errors:
        raise ConfigError(errors)
    console.write_line(f"{path} is valid for {mode} mode")
    # Part of the report, not of the errors: scripts take anything there for a failure.
    for note in (*report.version_errors, *report.notes):
        console.write_line(f"NOTE: {note}")
    return 0


COMMAND = Command(
    name="validate",
    summary="Check a configuration",
    flags=(
        Flag(name="config", short="c", required=True, help="the file to check"),
        Flag(name="mode", short="m", required=True, help=f"where it is for: {', '.join(MODES)}"),
        Flag(name="strict", type=Type.BOOL, default="false", help="take warnings for errors"),
    ),
    run=run_validate,
)
