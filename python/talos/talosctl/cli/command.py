"""Commands: what a command is called and takes, and where its code is.

The command line follows the conventions of the Go tool it stands in for: ``--flag=false``,
comma-separated lists, flags anywhere after the command's name, `Available Commands` in the
help. Click and argparse have neither of the first two, hence these few modules.

A command's module is imported when the command is chosen, not before: the root's rows name
it as a string. That keeps ``talosctl --help`` fast.
"""

import copy
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from talos.system.errors import UserError
from talos.talosctl.cli.flag import Flag, Flags, Type

HELP = Flag(name="help", short="h", type=Type.BOOL, help="show what the command does and takes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A parsed command line, handed to the command's function."""

    command: "Command"
    path: tuple[str, ...]
    flags: Flags
    args: tuple[str, ...]


type Run = Callable[[Invocation], int]
type Complete = Callable[[Invocation, str], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, or a group of commands when it has some and no function.

    ``run`` answers the exit code. ``complete`` offers values for the next argument. ``least``
    and ``most`` bound the number of arguments, ``most`` -1 is no bound.
    """

    name: str
    summary: str
    aliases: tuple[str, ...] = ()
    usage: str = ""
    details: str = ""
    example: str = ""
    flags: tuple[Flag, ...] = ()
    inherited: tuple[Flag, ...] = ()
    """Flags that its own commands take, too."""
    ignored: tuple[str, ...] = ()
    """Flags with a value that may stand before any command's name, without effect if it has none such."""
    commands: tuple["Command | Lazy", ...] = ()
    run: Run | None = None
    complete: Complete | None = None
    minimum: int = 0
    maximum: int = 0
    hidden: bool = False
    exclusive: tuple[tuple[str, ...], ...] = field(default=())
    """Groups of flags of which only one may be given."""

    def names(self) -> tuple[str, ...]:
        """Everything it answers to."""
        return (self.name, *self.aliases)


@dataclass(frozen=True, slots=True)
class Lazy:
    """A command whose module is not imported yet.

    The module calls it ``COMMAND``, or by the name after the colon in ``module``. One that is ``for_linux``
    has modules of it that can be imported there only.
    """

    name: str
    aliases: tuple[str, ...]
    summary: str
    module: str
    hidden: bool = False
    for_linux: bool = False

    def names(self) -> tuple[str, ...]:
        """Everything it answers to."""
        return (self.name, *self.aliases)

    def load(self) -> Command:
        """Import the module and take its command; UserError when it is for Linux and this is none."""
        if self.for_linux and sys.platform != "linux":
            raise UserError(f"works on Linux only, and this is {os.uname().sysname}", where=self.name)
        module, _, attribute = self.module.partition(":")
        command = cast("Command", getattr(importlib.import_module(module), attribute or "COMMAND"))
        # A few former names share one command.
        return command if command.name == self.name else copy.replace(command, name=self.name)


def load(command: Command | Lazy) -> Command:
    """The command itself."""
    return command.load() if isinstance(command, Lazy) else command


def child(parent: Command, name: str) -> Command | None:
    """The command of a group that answers to a name."""
    found = next((row for row in parent.commands if name in row.names()), None)
    return load(found) if found else None
