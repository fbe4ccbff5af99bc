"""``talosctl machineconfig``."""

from pathlib import Path

from talos.config.change.patch import apply_patches
from talos.system.files import read_file
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.patches import parse_patches
from talos.talosctl.commands.gen_config import FLAGS, run_config
from talos.talosctl.output import console
from talos.talosctl.output.files import write_file


def run_patch(invocation: Invocation) -> int:
    """Print a config with patches applied."""
    flags = invocation.flags
    path = invocation.args[0]
    text = apply_patches(read_file(path), parse_patches(flags.texts("patch")), source=path)
    if flags.is_given("output"):
        write_file(Path(flags.text("output")), text, force=True)
    else:
        console.write_line(text)
    return 0


COMMAND = Command(
    name="machineconfig",
    aliases=("mc",),
    summary="Generate and patch configurations",
    commands=(
        Command(
            name="gen",
            usage="<cluster name> <cluster endpoint>",
            summary="Make the configurations of a cluster, as talosctl gen config does",
            flags=(
                *FLAGS,
                Flag(
                    name="force", short="f", type=Type.BOOL, default="false", help="overwrite existing files"
                ),
            ),
            minimum=2,
            maximum=2,
            run=run_config,
        ),
        Command(
            name="patch",
            usage="<machineconfig-file>",
            summary="Apply patches to a configuration",
            flags=(
                Flag(name="output", short="o", help="the file to write instead of printing"),
                Flag(
                    name="patch",
                    short="p",
                    type=Type.STRING_ARRAY,
                    help="a patch, @file or a URL; may be repeated",
                ),
            ),
            minimum=1,
            maximum=1,
            run=run_patch,
        ),
    ),
)
