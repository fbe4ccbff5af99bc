"""Flags: one row each, from which parser, help, completion and tests come."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from talos.api.durations import parse_duration
from talos.talosctl.cli.values import parse_bool, parse_int, parse_words

type Value = bool | int | float | str | tuple[str, ...]


class Type(enum.Enum):
    """What a flag takes; the value is the name that help shows."""

    BOOL = "bool"
    STRING = "string"
    STRINGS = "strings"
    """Comma-separated and repeatable."""
    STRING_ARRAY = "stringArray"
    """Repeatable; a comma is part of the value."""
    INT = "int"
    INT32 = "int32"
    UINT = "uint"
    UINT16 = "uint16"
    FLOAT = "float"
    DURATION = "duration"


_BOUNDS = {
    Type.INT: (-(2**63), 2**63 - 1),
    Type.INT32: (-(2**31), 2**31 - 1),
    Type.UINT: (0, 2**64 - 1),
    Type.UINT16: (0, 2**16 - 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag of a command.

    ``default`` is written as help shows it, without quotes. ``metavar`` overrides the type's
    name in help; ``choices`` are the only values taken, and the ones completion offers;
    ``suggestions`` are offered and not the only ones. ``deprecated`` is what to do instead of giving it.
    """

    name: str
    help: str
    type: Type = Type.STRING
    short: str = ""
    default: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    required: bool = False
    hidden: bool = False
    deprecated: str = ""

    @property
    def title(self) -> str:
        """The flag as error messages name it: ``-n, --nodes``."""
        return f"-{self.short}, --{self.name}" if self.short else f"--{self.name}"

    @property
    def is_list(self) -> bool:
        """Whether giving it twice adds to the first value instead of replacing it."""
        return self.type in {Type.STRINGS, Type.STRING_ARRAY}

    def initial(self) -> Value:
        """The value when it is not given."""
        if self.default or self.type is Type.STRING:
            return self.parse(self.default)
        if self.is_list:
            return ()
        if self.type is Type.BOOL:
            return False
        return 0.0 if self.type in {Type.FLOAT, Type.DURATION} else 0

    def parse(self, text: str) -> Value:
        """The value of a text; ValueError with what is wrong with it."""
        if self.choices and text not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}")
        match self.type:
            case Type.BOOL:
                return parse_bool(text)
            case Type.STRING:
                return text
            case Type.STRINGS:
                return tuple(parse_words(text))
            case Type.STRING_ARRAY:
                return (text,)
            case Type.DURATION:
                return parse_duration(text)
            case Type.FLOAT:
                return float(text)
            case _:
                return parse_int(text, *_BOUNDS[self.type])


class Flags:
    """The values a command line gave, and the defaults of what it did not give."""

    def __init__(self, rows: Sequence[Flag]) -> None:
        self._rows: Mapping[str, Flag] = {row.name: row for row in rows}
        self._given: dict[str, Value] = {}

    def set(self, row: Flag, text: str) -> None:
        """Take a value; raises ValueError when it is none."""
        value = row.parse(text)
        if row.is_list:
            earlier = cast("tuple[str, ...]", self._given.get(row.name, ()))
            value = (*earlier, *cast("tuple[str, ...]", value))
        self._given[row.name] = value

    def is_given(self, name: str) -> bool:
        """Whether the command line names the flag."""
        return name in self._given

    def find_deprecated(self) -> list[Flag]:
        """Those of the command line that there is something better than."""
        return [self._rows[name] for name in self._given if self._rows[name].deprecated]

    def _value(self, name: str) -> Value:
        given = self._given.get(name)
        return self._rows[name].initial() if given is None else given

    def has(self, name: str) -> bool:
        """Whether the command has the flag at all."""
        return name in self._rows

    def is_set(self, name: str) -> bool:
        """A boolean flag's value."""
        return bool(self._value(name))

    def text(self, name: str) -> str:
        """A string flag's value."""
        return cast("str", self._value(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """The values of a flag that may be given several times."""
        return cast("tuple[str, ...]", self._value(name))

    def number(self, name: str) -> int:
        """A whole-number flag's value."""
        return cast("int", self._value(name))

    def seconds(self, name: str) -> float:
        """A duration flag's value."""
        return cast("float", self._value(name))
