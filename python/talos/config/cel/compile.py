"""Expressions in CEL, checked against the names they may use, and their values.

    expression = compile_expression('disk.size > 100u * GB', DISK, where="…diskSelector.match")
    expression.is_true({"disk": spec, "system_disk": False}) -> bool

What an expression costs is bounded: its text by the parser, patterns by the linear matcher, and loops run
over what a message holds, at most two inside each other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from talos.config.cel import types
from talos.config.cel.parse import parse
from talos.config.cel.syntax import (
    Apply,
    CelError,
    Comprehension,
    Field,
    ListOf,
    Literal,
    MapOf,
    Name,
    Node,
    UInt,
)
from talos.config.cel.types import BOOL, DYN, FUNCTIONS, METHODS, Overload, Type, list_of, map_of
from talos.system.errors import UserError

MAX_LOOPS = 2
"""Loops inside each other: their time is the product of the lists' sizes."""

type Scope = Mapping[str, Any]
type Run = Callable[[Scope], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What expressions of one kind may use: ``variables`` by type, ``constants``, functions of its own."""

    variables: Mapping[str, Type]
    constants: Mapping[str, tuple[Type, Any]] = field(default_factory=dict[str, tuple[Type, Any]])
    functions: Mapping[str, Sequence[Overload]] = field(default_factory=dict[str, Sequence[Overload]])
    example: str = ""


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression; ``where`` is the config's path, for errors."""

    text: str
    where: str
    _run: Run

    def evaluate(self, variables: Scope) -> Any:
        """Its value; UserError where there is none, such as after a division by zero."""
        try:
            return self._run(variables)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise UserError(f"{self.text!r} can't be computed: {error}", where=self.where) from None

    def is_true(self, variables: Scope) -> bool:
        """The value of an expression of type bool."""
        return bool(self.evaluate(variables))


def compile_expression(text: str, environment: Environment, *, where: str, result: Type = BOOL) -> Expression:
    """Read and check an expression; UserError with the place of the mistake."""
    try:
        node = parse(text)
        run = _Compiler(environment).compile_as(result, node)
    except CelError as error:
        shown = text if len(text) <= 120 else text[:120] + "…"
        hint = f"such as {environment.example}" if environment.example else ""
        raise UserError(f"{shown!r}, character {error.place}: {error}", where=where, hint=hint) from None
    return Expression(text, where, run)


class _Compiler:
    """Gives each node its type and what computes it. ``local`` are the loops' variables."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def compile_as(self, expected: Type, node: Node) -> Run:
        """Compile a whole expression, which must have a certain type."""
        found, run = self.compile(node, {})
        if found not in (expected, DYN):
            raise CelError(f"it gives {found}, not {expected}", 1)
        return run

    def compile(self, node: Node, local: Mapping[str, Type]) -> tuple[Type, Run]:
        match node:
            case Literal():
                return _literal_type(node.value), lambda _: node.value
            case Name():
                return self._compile_name(node, local)
            case Field():
                return self._compile_field(node, local)
            case ListOf():
                return self._compile_list(node, local)
            case MapOf():
                return self._compile_map(node, local)
            case Comprehension():
                return self._compile_loop(node, local)
            case Apply():
                return self._compile_apply(node, local)

    def _compile_name(self, node: Name, local: Mapping[str, Type]) -> tuple[Type, Run]:
        name = node.name
        if name in self._environment.constants:
            found, value = self._environment.constants[name]
            return found, lambda _: value
        declared = local.get(name) or self._environment.variables.get(name)
        if declared is None:
            known = ", ".join((*self._environment.variables, *local))
            raise CelError(f"{name} is not known here, but {known}", node.place)
        return declared, lambda scope: scope[name]

    def _compile_field(self, node: Field, local: Mapping[str, Type]) -> tuple[Type, Run]:
        operand, run = self.compile(node.operand, local)
        name = node.name
        declared = operand.message.fields_by_name.get(name) if operand.message else None
        if declared is None:
            raise CelError(f"{operand} has no field {name}", node.place)
        found = types.field_type(declared)
        if not node.test:
            return found, lambda scope: getattr(run(scope), name)
        if declared.has_presence:
            return BOOL, lambda scope: run(scope).HasField(name)
        return BOOL, lambda scope: bool(getattr(run(scope), name))

    def _compile_list(self, node: ListOf, local: Mapping[str, Type]) -> tuple[Type, Run]:
        compiled = [self.compile(item, local) for item in node.items]
        found = _common_type([kind for kind, _ in compiled], node.place)
        return list_of(found), lambda scope: [run(scope) for _, run in compiled]

    def _compile_map(self, node: MapOf, local: Mapping[str, Type]) -> tuple[Type, Run]:
        keys = [self.compile(key, local) for key, _ in node.entries]
        values = [self.compile(value, local) for _, value in node.entries]
        found = map_of(
            _common_type([kind for kind, _ in keys], node.place),
            _common_type([kind for kind, _ in values], node.place),
        )
        pairs = [(key, value) for (_, key), (_, value) in zip(keys, values, strict=True)]
        return found, lambda scope: {key(scope): value(scope) for key, value in pairs}

    def _compile_loop(self, node: Comprehension, local: Mapping[str, Type]) -> tuple[Type, Run]:
        if len(local) == MAX_LOOPS:
            raise CelError(f"{node.macro}: more than {MAX_LOOPS} loops inside each other", node.place)
        if node.variable in local or node.variable in self._environment.variables:
            raise CelError(f"{node.variable} is taken, choose another name", node.place)
        items, run = self.compile(node.items, local)
        if items.name not in ("list", "map"):
            raise CelError(f"{node.macro} needs a list, not {items}", node.place)
        body_type, body = self.compile(node.body, {**local, node.variable: items.of[0]})
        if node.macro != "map" and body_type not in (BOOL, DYN):
            raise CelError(f"{node.macro} needs a condition, not {body_type}", node.place)
        variable = node.variable

        def loop(scope: Scope) -> list[tuple[Any, Any]]:
            return [(item, body({**scope, variable: item})) for item in run(scope)]

        match node.macro:
            case "all":
                return BOOL, lambda scope: all(value for _, value in loop(scope))
            case "exists":
                return BOOL, lambda scope: any(value for _, value in loop(scope))
            case "exists_one":
                return BOOL, lambda scope: sum(value for _, value in loop(scope)) == 1
            case "filter":
                return list_of(items.of[0]), lambda scope: [item for item, value in loop(scope) if value]
            case _:
                return list_of(body_type), lambda scope: [value for _, value in loop(scope)]

    def _compile_apply(self, node: Apply, local: Mapping[str, Type]) -> tuple[Type, Run]:
        operands = node.arguments if node.target is None else (node.target, *node.arguments)
        compiled = [self.compile(operand, local) for operand in operands]
        kinds = [kind for kind, _ in compiled]
        runs = [run for _, run in compiled]
        match node.function:
            case "_&&_" | "_||_" | "_?_:_":
                return _compile_lazy(node, kinds, runs)
            case _:
                overload, found = self._choose(node, kinds)
                compute = overload.run
                return found, lambda scope: compute(*(run(scope) for run in runs))

    def _choose(self, node: Apply, kinds: Sequence[Type]) -> tuple[Overload, Type]:
        """The overload for these types, and its result's type."""
        if node.target is None:
            overloads = self._environment.functions.get(node.function) or FUNCTIONS.get(node.function)
        else:
            overloads = METHODS.get(node.function)
        if overloads is None:
            raise CelError(f"there is no function {node.function}", node.place)
        for overload in overloads:
            bound: dict[str, Type] = {}
            if len(overload.arguments) == len(kinds) and all(
                types.unify(expected, kind, bound)
                for expected, kind in zip(overload.arguments, kinds, strict=True)
            ):
                return overload, types.substitute(overload.result, bound)
        given = ", ".join(map(str, kinds))
        raise CelError(f"{_readable(node.function)} can't be applied to ({given})", node.place)


def _compile_lazy(node: Apply, kinds: Sequence[Type], runs: Sequence[Run]) -> tuple[Type, Run]:
    """What computes only the operands that it needs."""
    conditions = kinds[:1] if node.function == "_?_:_" else kinds
    if any(kind not in (BOOL, DYN) for kind in conditions):
        given = ", ".join(map(str, kinds))
        raise CelError(f"{_readable(node.function)} can't be applied to ({given})", node.place)
    first, second, *rest = runs
    match node.function:
        case "_&&_":
            return BOOL, lambda scope: first(scope) and second(scope)
        case "_||_":
            return BOOL, lambda scope: first(scope) or second(scope)
        case _:
            found = _common_type(kinds[1:], node.place)
            return found, lambda scope: second(scope) if first(scope) else rest[0](scope)


def _literal_type(value: object) -> Type:
    match value:
        case bool():
            return BOOL
        case UInt():
            return types.UINT
        case int():
            return types.INT
        case float():
            return types.DOUBLE
        case str():
            return types.STRING
        case _:
            return types.NULL


def _common_type(kinds: Sequence[Type], place: int) -> Type:
    bound: dict[str, Type] = {}
    for kind in kinds:
        if not types.unify(types.A, kind, bound):
            raise CelError(f"{bound['A']} and {kind} don't mix", place)
    return bound.get("A", DYN)


def _readable(function: str) -> str:
    return {"@in": "in", "_?_:_": "?:", "_[_]": "[]"}.get(function, function.strip("_"))
