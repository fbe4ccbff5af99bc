"""CEL's types, and the functions of its standard library that configs use, with their overloads.

As in CEL, nothing is converted implicitly: ``disk.size > 100`` is refused, since a size is unsigned.
"""

import operator
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from talos.api.durations import parse_duration
from talos.config.cel.syntax import INT_RANGE, UINT_RANGE, UInt
from talos.resource.pattern import Pattern


@dataclass(frozen=True, slots=True)
class Type:
    """A type by its name in CEL, such as ``uint`` or ``list`` of something; messages have a descriptor."""

    name: str
    of: tuple["Type", ...] = ()
    message: Descriptor | None = None

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.of))})" if self.of else self.name


BOOL = Type("bool")
INT = Type("int")
UINT = Type("uint")
DOUBLE = Type("double")
STRING = Type("string")
BYTES = Type("bytes")
DURATION = Type("duration")
NULL = Type("null_type")
DYN = Type("dyn")
"""Fits every type: that of an empty list's items."""
A = Type("A")
"""Any type, the same one wherever an overload has it."""
B = Type("B")
LIST = Type("list", (A,))
MAP = Type("map", (A, B))
OPTIONAL = Type("optional_type", (A,))


def list_of(item: Type) -> Type:
    """The type of a list."""
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    """The type of a map."""
    return Type("map", (key, value))


def optional_of(item: Type) -> Type:
    """The type of a value that may be absent; absent is None."""
    return Type("optional_type", (item,))


_FIELD_TYPES: Mapping[int, Type] = {
    FieldDescriptor.CPPTYPE_BOOL: BOOL,
    FieldDescriptor.CPPTYPE_INT32: INT,
    FieldDescriptor.CPPTYPE_INT64: INT,
    FieldDescriptor.CPPTYPE_ENUM: INT,
    FieldDescriptor.CPPTYPE_UINT32: UINT,
    FieldDescriptor.CPPTYPE_UINT64: UINT,
    FieldDescriptor.CPPTYPE_FLOAT: DOUBLE,
    FieldDescriptor.CPPTYPE_DOUBLE: DOUBLE,
}


def message_type(message: type[Message]) -> Type:
    """The type of a protobuf message."""
    return _descriptor_type(cast("Descriptor", message.DESCRIPTOR))


def _descriptor_type(descriptor: Descriptor) -> Type:
    return Type(descriptor.full_name, message=descriptor)


def field_type(field: FieldDescriptor) -> Type:
    """The type of a message's field."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = field.message_type.fields_by_name
        return map_of(field_type(entry["key"]), field_type(entry["value"]))
    if field.message_type is not None:
        single = _descriptor_type(field.message_type)
    elif field.type == FieldDescriptor.TYPE_BYTES:
        single = BYTES
    else:
        single = _FIELD_TYPES.get(field.cpp_type, STRING)
    return list_of(single) if field.is_repeated else single


def unify(pattern: Type, actual: Type, bound: dict[str, Type]) -> bool:
    """Whether a type fits an overload's, given what its variables are ``bound`` to; binds more of them."""
    if pattern in (A, B):
        known = bound.setdefault(pattern.name, actual)
        if known == DYN:
            bound[pattern.name] = actual
        return known == actual or DYN in (known, actual)
    if DYN in (pattern, actual):
        return True
    return (
        pattern.name == actual.name
        and len(pattern.of) == len(actual.of)
        and all(unify(left, right, bound) for left, right in zip(pattern.of, actual.of, strict=True))
    )


def substitute(pattern: Type, bound: Mapping[str, Type]) -> Type:
    """A type with its variables replaced; unbound ones fit every type."""
    if pattern in (A, B):
        return bound.get(pattern.name, DYN)
    return Type(pattern.name, tuple(substitute(item, bound) for item in pattern.of), pattern.message)


@dataclass(frozen=True, slots=True)
class Overload:
    """One form of a function. A method's first argument is the operand before the dot."""

    arguments: tuple[Type, ...]
    result: Type
    run: Callable[..., Any]


@cache
def _pattern(text: str) -> Pattern:
    return Pattern(text)


def _matches(text: str, pattern: str) -> bool:
    return bool(_pattern(pattern).search(text))


def _glob(pattern: str, text: str) -> bool:
    return fnmatchcase(text, pattern)


def _has_value(value: object) -> bool:
    return value is not None


def _value(value: object) -> object:
    return value


def _value_or(value: object, other: object) -> object:
    return other if value is None else value


def _checked(run: Callable[..., int], numbers: range, make: Callable[[int], int]) -> Callable[..., int]:
    """An integer operation that fails on overflow, as CEL's do."""

    def compute(*values: int) -> int:
        result = run(*values)
        if result not in numbers:
            raise ValueError(f"{result} is out of range")
        return make(result)

    return compute


def _divide(left: int, right: int) -> int:
    """Division towards zero, as CEL has it."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    return left - right * _divide(left, right)


def _negate(number: int) -> int:
    return -number


def _divide_exactly(left: float, right: float) -> float:
    return left / right


def _arithmetic(run: Callable[..., Any], *, real: Callable[..., Any] | None = None) -> list[Overload]:
    overloads = [
        Overload((INT, INT), INT, _checked(run, INT_RANGE, int)),
        Overload((UINT, UINT), UINT, _checked(run, UINT_RANGE, UInt)),
    ]
    return [*overloads, Overload((DOUBLE, DOUBLE), DOUBLE, real)] if real else overloads


def _comparison(run: Callable[[Any, Any], bool]) -> list[Overload]:
    ordered = (BOOL, INT, UINT, DOUBLE, STRING, BYTES, DURATION)
    return [Overload((kind, kind), BOOL, run) for kind in ordered]


def _contains(item: object, items: Sequence[object] | Mapping[object, object]) -> bool:
    return item in items


def _index(items: Sequence[Any], index: int) -> Any:
    if not 0 <= index < len(items):
        raise ValueError(f"there is no item {index} among {len(items)}")
    return items[index]


def _lookup(entries: Mapping[Any, Any], key: object) -> Any:
    if key not in entries:
        raise ValueError(f"the map has no {key!r}")
    return entries[key]


def _make_duration(text: str) -> timedelta:
    return timedelta(seconds=parse_duration(text))


def _convert(run: Callable[[Any], Any], result: Type, *sources: Type) -> list[Overload]:
    return [Overload((source,), result, run) for source in sources]


def _size_of(value: Sized) -> int:
    return len(value)


_SIZES = [Overload((kind,), INT, _size_of) for kind in (STRING, BYTES, LIST, MAP)]
_TO_INT = _checked(int, INT_RANGE, int)
_TO_UINT = _checked(int, UINT_RANGE, UInt)

FUNCTIONS: Mapping[str, Sequence[Overload]] = {
    "!_": [Overload((BOOL,), BOOL, operator.not_)],
    "-_": [
        Overload((INT,), INT, _checked(_negate, INT_RANGE, int)),
        Overload((DOUBLE,), DOUBLE, operator.neg),
    ],
    "_==_": [Overload((A, A), BOOL, operator.eq)],
    "_!=_": [Overload((A, A), BOOL, operator.ne)],
    "_<_": _comparison(operator.lt),
    "_<=_": _comparison(operator.le),
    "_>_": _comparison(operator.gt),
    "_>=_": _comparison(operator.ge),
    "_+_": [
        *_arithmetic(operator.add, real=operator.add),
        Overload((STRING, STRING), STRING, operator.add),
        Overload((LIST, LIST), LIST, operator.add),
        Overload((DURATION, DURATION), DURATION, operator.add),
    ],
    "_-_": [
        *_arithmetic(operator.sub, real=operator.sub),
        Overload((DURATION, DURATION), DURATION, operator.sub),
    ],
    "_*_": _arithmetic(operator.mul, real=operator.mul),
    "_/_": _arithmetic(_divide, real=_divide_exactly),
    "_%_": _arithmetic(_remainder),
    "@in": [Overload((A, LIST), BOOL, _contains), Overload((A, MAP), BOOL, _contains)],
    "_[_]": [Overload((LIST, INT), A, _index), Overload((MAP, A), B, _lookup)],
    "size": _SIZES,
    "int": _convert(_TO_INT, INT, INT, UINT, DOUBLE, STRING),
    "uint": _convert(_TO_UINT, UINT, INT, UINT, DOUBLE, STRING),
    "double": _convert(float, DOUBLE, INT, UINT, DOUBLE, STRING),
    "string": _convert(str, STRING, INT, UINT, DOUBLE, STRING, BOOL),
    "duration": _convert(_make_duration, DURATION, STRING),
    "matches": [Overload((STRING, STRING), BOOL, _matches)],
    "glob": [Overload((STRING, STRING), BOOL, _glob)],
}
"""Operators and functions by their names in CEL."""

METHODS: Mapping[str, Sequence[Overload]] = {
    "size": _SIZES,
    "startsWith": [Overload((STRING, STRING), BOOL, str.startswith)],
    "endsWith": [Overload((STRING, STRING), BOOL, str.endswith)],
    "contains": [Overload((STRING, STRING), BOOL, str.__contains__)],
    "matches": [Overload((STRING, STRING), BOOL, _matches)],
    "lowerAscii": [Overload((STRING,), STRING, str.lower)],
    "upperAscii": [Overload((STRING,), STRING, str.upper)],
    "hasValue": [Overload((OPTIONAL,), BOOL, _has_value)],
    "value": [Overload((OPTIONAL,), A, _value)],
    "orValue": [Overload((OPTIONAL, A), A, _value_or)],
}
"""Methods: functions called with a dot."""
