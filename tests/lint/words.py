"""Holds the words of names, prose and constants; `make lint` and `nix flake check` run it.

names      no part of a name in Python code is one of the words in words.toml
prose      nor has a comment, a docstring or a page of the documentation one of its expressions
constants  bounds are MAX_ and MIN_; times end in TIMEOUT, INTERVAL, DELAY and the like, and have their
           unit in the name, in a comment or in the docstring below
programs   nor some more expressions, of what programs don't do

Texts that programs print are left alone, and so is what others have named: `code` in a page, and strings.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("docs", "kernel", "modules", "nixos-tests", "pkgs", "python", "tests")
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "README.md")
NOT_OURS = re.compile(
    r"_pb2\.py$|/node_modules/|^tests/data/|^tests/lint/words\.|^python/talos/api/protos/|^build/"
)
"""Generated, copied, or these rules themselves."""

WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

NAME_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
NUMBER = re.compile(r"[-+*/() \d._xeEobA-F<]+")
"""A sum of numbers, as `ast.unparse` writes it."""

TIME = re.compile(r"(^|_)(TIMEOUT|INTERVAL|DELAY|DEADLINE|BACKOFF|PERIOD|DURATION|TTL|WAIT)$")
UNIT = re.compile(r"\b(s|ms|µs|us|ns|min|hops|[a-z]*seconds?|minutes?|hours?|days?)\b", re.IGNORECASE)
CODE = re.compile(r"```.*?```|``[^`]*``|`[^`]*`|\]\([^)]*\)|<!--.*?-->", re.DOTALL)
HASH_COMMENT = re.compile(r"(?:^|\s)#[^!](.*)$")
C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def compile_rules(section: str, flags: re.RegexFlag = re.NOFLAG) -> dict[re.Pattern[str], str]:
    """The expressions of a section with their replacements."""
    return {re.compile(rf"\b({words})\b", flags): use for words, use in WORDS[section].items()}


PROSE = compile_rules("prose", re.IGNORECASE) | compile_rules("programs", re.IGNORECASE)
CONSTANTS = compile_rules("constants")
BARE = compile_rules("bare")
NAMES: Mapping[str, str] = WORDS["names"]


def blank(match: re.Match[str]) -> str:
    """What keeps the lines of a text that is not looked at."""
    return "\n" * match[0].count("\n") or " "


def check_prose(where: str, line: int, text: str) -> Iterator[str]:
    """Report words of a text that begins in a line."""
    text = CODE.sub(blank, text)
    for expression, use in PROSE.items():
        for match in expression.finditer(text):
            at = line + text.count("\n", 0, match.start())
            yield f"{where}:{at}: {match[0]!r}; write: {use}"


def check_tokens(where: str, text: str) -> Iterator[str]:
    """Report the comments and names of a module."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            yield from check_prose(where, line, token.string)
        elif token.type == tokenize.NAME:
            for part in NAME_PARTS.findall(token.string):
                if use := NAMES.get(part.lower()):
                    yield f"{where}:{line}: {part!r} in the name {token.string}; write: {use}"


def find_targets(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """The names that an assignment gives to values, those of `A, B = 1, 2` too."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
        yield statement.target.id, statement.value
    if not isinstance(statement, ast.Assign):
        return
    for target in statement.targets:
        if isinstance(target, ast.Name):
            yield target.id, statement.value
        elif isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            pairs = zip(target.elts, statement.value.elts, strict=False)
            yield from ((name.id, value) for name, value in pairs if isinstance(name, ast.Name))


def check_constant(name: str, value: ast.expr, around: str) -> Iterator[str]:
    """Report the name of one number. ``around`` is its comments and docstring."""
    source = ast.unparse(value)
    if not name.isupper() or not NUMBER.fullmatch(source.replace("float", "")):
        return
    for expression, use in CONSTANTS.items():
        if match := expression.search(name.replace("_", " ")):
            yield f"{match[0]!r} in the name {name}; write: {use}"
    for expression, use in BARE.items():
        if expression.fullmatch(name.strip("_")):
            yield f"{name} says not of what; write: {use}"
    if name.endswith("_LIMIT") and UNIT.search(around):
        yield f"{name} is a time; write: {name.removesuffix('LIMIT')}TIMEOUT, _TTL, _THRESHOLD"
    if TIME.search(name) and not UNIT.search(f"{name.replace('_', ' ')} {around}"):
        yield f"{name} has no unit; write it in a comment or the docstring: seconds"


def find_bodies(tree: ast.AST) -> Iterator[tuple[bool, Sequence[ast.stmt]]]:
    """All lists of statements, and whether they are a module's or a class's."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            yield isinstance(node, ast.Module | ast.ClassDef), cast("list[ast.stmt]", body)


def check_tree(where: str, text: str) -> Iterator[str]:
    """Report the docstrings and constants of a module."""
    lines = text.splitlines()
    for has_constants, body in find_bodies(ast.parse(text, filename=where)):
        for statement, after in zip(body, [*body[1:], None], strict=True):
            if doc := find_docstring(statement):
                yield from check_prose(where, *doc)
            if has_constants:
                around = find_around(lines, statement, after)
                for name, value in find_targets(statement):
                    problems = check_constant(name, value, around)
                    yield from (f"{where}:{statement.lineno}: {problem}" for problem in problems)


def find_around(lines: Sequence[str], statement: ast.stmt, after: ast.stmt | None) -> str:
    """The comments beside and above a statement, and the docstring below."""
    beside = lines[statement.lineno - 1].partition("#")[2]
    above = lines[statement.lineno - 2] if statement.lineno > 1 else ""
    below = find_docstring(after)
    return " ".join([beside, above if above.lstrip().startswith("#") else "", below[1] if below else ""])


def find_docstring(statement: ast.AST | None) -> tuple[int, str] | None:
    """The line and text of a string that stands for itself."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return (statement.lineno, value) if isinstance(value, str) else None
    return None


def check_file(path: Path) -> Iterator[str]:
    """Report what is wrong with one file."""
    where = str(path.relative_to(ROOT))
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from check_tokens(where, text)
        yield from check_tree(where, text)
    elif path.suffix == ".md":
        yield from check_prose(where, 1, text)
    elif path.suffix in {".c", ".h", ".proto"}:
        for match in C_COMMENT.finditer(text):
            yield from check_prose(where, 1 + text.count("\n", 0, match.start()), match[0])
    else:
        for number, line in enumerate(text.splitlines(), 1):
            if match := HASH_COMMENT.search(line):
                yield from check_prose(where, number, match[0])


def is_ours(where: str) -> bool:
    """Whether the rules hold for a file."""
    return not NOT_OURS.search(where) and not where.startswith(tuple(WORDS["later"]["folders"]))


def find_files() -> Iterator[Path]:
    """Everything that the project has written."""
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*")):
            kinds = {".py", ".md", ".nix", ".toml", ".sh", ".c", ".h", ".proto"}
            if path.suffix in kinds and path.is_file() and is_ours(str(path.relative_to(ROOT))):
                yield path
    yield from (ROOT / page for page in (*PAGES, "Makefile"))


def main() -> int:
    """Check everything."""
    files = list(find_files())
    problems = [problem for path in files for problem in check_file(path)]
    for problem in problems:
        sys.stdout.write(problem + "\n")
    sys.stdout.write(f"words: {len(files)} files, {len(problems)} problems\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
