"""Patterns of queries: as Python's, where both have them, but never slow."""

import random
import re
import tracemalloc

import pytest
from tests.harness.processor import at_most

from talos.resource.pattern import Pattern
from talos.resource.pattern_syntax import PatternError

PATTERNS = [
    "", "a", "abc", "^a", "a$", "^$", "^abc$", "a*", "a+b", "a?b", "ab|cd", "(ab|cd)+", "(a|b)*c$", ".",
    "a.c", "[abc]", "[^abc]",
    "[a-c]+$", "[]a]", "[a-]", r"\d+", r"\D", r"\w+-\w+", r"\s", r"[\d.]+", r"\.", r"\\",
    "a{2}", "a{2,}", "a{1,3}b", "a{,2}", "a{x", r"\ba", r"a\b", r"\Ba", r"\Aab", "(?:ab)+", "(?P<n>a)b",
    "(?i)AB", "(?i:A)b", "a(?:b|)c", "^eth0/.*$", "(a*)*b", "(a|a)*b", "x*y*z*", "a+?b", r"\x61b",
    "[b-d]|^a$",
]  # fmt: skip
TEXTS = [
    "", "a", "b", "c", "abc", "aab", "aaab", "AB", "Ab", "abab", "cdab", "eth0/10.5.0.2/24", "eth1/a", "a-b",
    "a b", "12.5", "a.c", "a\nc", "]", "-", "\\", "aaaa", "xyz", "a{x", "a{,2}", "ba ab", "é", "abcd",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_finds_what_python_finds(pattern: str) -> None:
    if pattern == "a{,2}":
        # Text in RE2, a repetition in Python.
        assert Pattern(pattern).search("a{,2}")
        return
    expected = re.compile(pattern, re.ASCII)
    for text in TEXTS:
        assert bool(Pattern(pattern).search(text)) == bool(expected.search(text)), (pattern, text)


def test_random_patterns() -> None:
    dice = random.Random(1)

    def make(depth: int) -> str:
        match dice.randrange(7 if depth else 3):
            case 0 | 1:
                return dice.choice("abc.")
            case 2:
                return dice.choice(["[ab]", "[^c]", "^", "$"])
            case 3:
                return make(depth - 1) + make(depth - 1)
            case 4:
                return f"(?:{make(depth - 1)}|{make(depth - 1)})"
            case 5:
                return f"(?:{make(depth - 1)}){dice.choice('*+?')}"
            case _:
                return f"(?:{make(depth - 1)}){{{dice.randrange(2)},{dice.randrange(2, 4)}}}"

    for _ in range(1000):
        pattern = make(3)
        compiled, expected = Pattern(pattern), re.compile(pattern)
        for _ in range(10):
            text = "".join(dice.choice("abc") for _ in range(dice.randrange(8)))
            assert bool(compiled.search(text)) == bool(expected.search(text)), (pattern, text)


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "[", "[a", "*", "a**", "a{3}{3}", "\\", r"\1", r"\p", r"\xg0", "(?=a)", "(?P<n", "[c-a]",
     "a{2,1}", "[[:alpha:]]", "a{1001}", "(a{500}){3}", "((a{50}){50}){50}", "(" * 60 + ")" * 60, "(?<!a)b"],
)  # fmt: skip
def test_what_is_no_pattern_or_too_much(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


def test_what_is_too_large_costs_nothing() -> None:
    for pattern in ("a" * 1025, "a" * 30_000_000, f"[{'a' * 900_000}]", f"[{'a' * 257}]"):
        tracemalloc.start()
        with at_most(0.05), pytest.raises(PatternError, match=r"more than|too many"):
            Pattern(pattern)
        assert tracemalloc.get_traced_memory()[1] < 100_000
        tracemalloc.stop()


def test_garbage_is_refused_in_an_orderly_way() -> None:
    dice = random.Random(2)
    for _ in range(5000):
        text = "".join(dice.choice("ab()[]{}?*+|\\^$.-,:<>Pix01") for _ in range(dice.randrange(12)))
        try:
            Pattern(text).search("ab01-x")
        except PatternError:
            continue


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*b", ".*.*.*.*.*.*.*.*x", "(a?){50}a{50}b", "(?:.{1,19}){10}xx"]
)
def test_no_pattern_takes_long(pattern: str) -> None:
    with at_most(1):
        assert not Pattern(pattern).search("a" * 200 + "!")
