"""CEL expressions as text.

Volumes and disks are selected by expressions that travel as syntax trees; clients read and
write them as text.
"""

from talos.api.google.api.expr.v1alpha1.checked_pb2 import CheckedExpr
from talos.api.google.api.expr.v1alpha1.syntax_pb2 import Constant, Expr, SourceInfo
from talos.system.errors import UserError

_BINARY = {
    "_||_": ("||", 1),
    "_&&_": ("&&", 2),
    "_==_": ("==", 3),
    "_!=_": ("!=", 3),
    "_<_": ("<", 3),
    "_<=_": ("<=", 3),
    "_>_": (">", 3),
    "_>=_": (">=", 3),
    "@in": ("in", 3),
    "_+_": ("+", 4),
    "_-_": ("-", 4),
    "_*_": ("*", 5),
    "_/_": ("/", 5),
    "_%_": ("%", 5),
}
_UNARY = {"!_": "!", "-_": "-"}
_UNARY_RANK = 6
_ATOM_RANK = 7
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def expression_to_text(checked: CheckedExpr) -> str:
    """The text of an expression, with as few parentheses as it needs; empty for none."""
    if not checked.HasField("expr"):
        return ""
    return _render(checked.expr, checked.source_info)[0]


def _render(expr: Expr, source: SourceInfo) -> tuple[str, int]:
    """The text and the precedence of its outermost operator."""
    if expr.id in source.macro_calls:
        # What was written as a macro, such as list.exists(item, condition), reads as one.
        return _render(source.macro_calls[expr.id], source)
    match expr.WhichOneof("expr_kind"):
        case "const_expr":
            return _constant(expr.const_expr), _ATOM_RANK
        case "ident_expr":
            return expr.ident_expr.name, _ATOM_RANK
        case "select_expr":
            text = f"{_bound(expr.select_expr.operand, source, _ATOM_RANK)}.{expr.select_expr.field}"
            return (f"has({text})" if expr.select_expr.test_only else text), _ATOM_RANK
        case "call_expr":
            return _call(expr.call_expr, source)
        case "list_expr":
            return f"[{_arguments(list(expr.list_expr.elements), source)}]", _ATOM_RANK
        case "struct_expr":
            entries = (
                f"{entry.field_key or _render(entry.map_key, source)[0]}: {_render(entry.value, source)[0]}"
                for entry in expr.struct_expr.entries
            )
            return f"{expr.struct_expr.message_name}{{{', '.join(entries)}}}", _ATOM_RANK
        case kind:
            raise UserError(f"an expression of the kind {kind} can't be shown as text")


def _call(call: Expr.Call, source: SourceInfo) -> tuple[str, int]:
    arguments = list(call.args)
    name = call.function
    if name in _BINARY and len(arguments) == 2:
        operator, rank = _BINARY[name]
        left = _bound(arguments[0], source, rank)
        # Operators group to the left: an equal one on the right needs parentheses.
        right = _bound(arguments[1], source, rank + 1)
        return f"{left} {operator} {right}", rank
    if name in _UNARY and len(arguments) == 1:
        return _UNARY[name] + _bound(arguments[0], source, _UNARY_RANK), _UNARY_RANK
    if name == "_?_:_" and len(arguments) == 3:
        condition, yes, no = (_bound(argument, source, 1) for argument in arguments)
        return f"{condition} ? {yes} : {no}", 0
    if name == "_[_]" and len(arguments) == 2:
        return f"{_bound(arguments[0], source, _ATOM_RANK)}[{_render(arguments[1], source)[0]}]", _ATOM_RANK
    target = f"{_bound(call.target, source, _ATOM_RANK)}." if call.HasField("target") else ""
    return f"{target}{name}({_arguments(arguments, source)})", _ATOM_RANK


def _bound(expr: Expr, source: SourceInfo, rank: int) -> str:
    text, own = _render(expr, source)
    return f"({text})" if own < rank else text


def _arguments(arguments: list[Expr], source: SourceInfo) -> str:
    return ", ".join(_render(argument, source)[0] for argument in arguments)


def _constant(constant: Constant) -> str:
    match constant.WhichOneof("constant_kind"):
        case "bool_value":
            return "true" if constant.bool_value else "false"
        case "int64_value":
            return str(constant.int64_value)
        case "uint64_value":
            return f"{constant.uint64_value}u"
        case "double_value":
            return repr(constant.double_value)
        case "string_value":
            return f'"{"".join(_ESCAPES.get(char, char) for char in constant.string_value)}"'
        case "bytes_value":
            return 'b"' + "".join(f"\\x{byte:02x}" for byte in constant.bytes_value) + '"'
        case _:
            return "null"
