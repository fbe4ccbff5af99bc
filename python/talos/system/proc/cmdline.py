"""The kernel's command line."""

import re
import shlex
from dataclasses import dataclass

from talos.system.urls import HIDDEN

_NAMES = r"talos\.config\.(?:inline|early|oauth\.client_secret)="
_SECRET = re.compile(
    rf"(?P<name>(?<!\S){_NAMES})(?:[^\s\"]|\"[^\"]*\"?)*"
    rf"|(?P<quoted>(?<!\S)\"{_NAMES})[^\"]*"
    r"|(?P<user>://)[^/?#\s\"]*@"
    r"|(?P<query>[?&](?:[^=&#\s\"]*=)?+)(?!\$\{\w+\}(?:[&#\s\"]|$))[^&#\s\"]+",
    re.IGNORECASE,
)
"""A config, the secret of an OAuth client, the user of a URL, and the values of its query: tokens, such as
what lets a machine join SideroLink. A variable that is still to be filled in is none."""


@dataclass(frozen=True, slots=True)
class Cmdline:
    """Arguments in their order. A name may be given several times."""

    text: str
    arguments: tuple[tuple[str, str], ...]

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of an argument."""
        return tuple(value for key, value in self.arguments if key == name)

    def first(self, name: str, default: str = "") -> str:
        """The first value of an argument."""
        return next(iter(self.all(name)), default)

    def has(self, name: str) -> bool:
        """Whether an argument is given, with or without a value."""
        return any(key == name for key, _ in self.arguments)

    def is_on(self, name: str) -> bool:
        """Whether a switch is on: given without a value, or with ``1``, ``true`` and the like."""
        return self.has(name) and self.all(name)[-1].lower() in {"", "1", "t", "true", "on", "yes"}


def parse_cmdline(text: str) -> Cmdline:
    """Split as the kernel does: at blanks, but not within double quotes."""
    lexer = shlex.shlex(text.strip(), posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    lexer.quotes = '"'
    lexer.escape = ""
    try:
        tokens = list(lexer)
    except ValueError:  # an open quote: the kernel takes the rest of the line
        tokens = text.split()
    pairs = (word.partition("=") for word in tokens)
    return Cmdline(text.strip(), tuple((name, value) for name, _, value in pairs))


def hide_secrets(text: str) -> str:
    """A command line as everybody may see it who reads resources; all but secrets stays as it is."""
    return _SECRET.sub(_hide, text)


def _hide(found: re.Match[str]) -> str:
    user = found["user"]
    return user if user is not None else f"{found['name'] or found['quoted'] or found['query']}{HIDDEN}"
