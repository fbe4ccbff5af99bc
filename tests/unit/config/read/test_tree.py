# ruff: noqa: E501 - messages stand whole, so that they can be searched for
import random
from typing import Any

import pytest
from tests.harness.processor import at_most
from tests.unit.config import yaml_text

from talos.config.problem import ConfigError
from talos.config.read.nodes import plain
from talos.config.read.tree import MAX_BYTES, parse_documents
from talos.config.values import FileMode
from talos.resource.yaml.text import to_yaml

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 10)
)

BOMBS = "---\n".join([f"a: &a [{'x, ' * 50}]\nb: [{'*a, ' * 20}]\n"] * 100)
"""Each document is within the limit, all together are not."""

ALIASED_DEPTH = f"a: &a {'[' * 60}{']' * 60}\nb: {'[' * 90}*a{']' * 90}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &a [*a]", "c:1:8: alias *a contains itself"),
        ("a: &a {b: {c: *a}}", "c:1:15: alias *a contains itself"),
        ("a: *b", "c:1:4: an alias refers to nothing (quote a text that begins with *)"),
        (b"a: b\nc: \xff", "c:2:4: the text is not UTF-8 (save it as UTF-8)"),
        ("a: 1\nb: \x00", "c:2:4: no valid YAML: control characters are not allowed"),
        ("[" * 300, "c:1:101: nested too deeply (at most 100 levels)"),
        ("{a: " * 300, "c:1:401: nested too deeply (at most 100 levels)"),
        ("a: b: c", "c:1:5: no valid YAML: mapping values are not allowed in this context"),
        ("\ta: 1", "c:1:1: no valid YAML: found character that cannot start any token"),
        ("a: 'x", "c:1:6: no valid YAML: found unexpected end of stream"),
        ("? [a]\n: b", "c:1:3: a key must be a text"),
        ("x: &m {a: 1}\n*m : b", "c:2:1: a key must be a text"),
        (BOMB, "c:5:30: too many values, aliases counted as often as they are used (at most 50000)"),
        ("#" * (MAX_BYTES + 1), f"c: {MAX_BYTES + 1} bytes are too many (at most {MAX_BYTES})"),
        (BOMBS, "c:140:45: too many values, aliases counted as often as they are used (at most 50000)"),
        (ALIASED_DEPTH, "c:2:94: nested too deeply (at most 100 levels)"),
        ("--- 1\n" * 60_000, "c:50001:5: too many documents (at most 50000 values)"),
        ("? " + "k" * 513 + "\n: v", "c:1:3: the key is too long (at most 512 characters)"),
        ("%YAML 1.2\n---\na: 1", "c:1:1: this is another version of YAML (write %YAML 1.1)"),
        ("b: {<<: 5}", "c:1:5: << takes a mapping or a list of mappings"),
        ("b: {<<: [{k: 1}, [x]]}", "c:1:5: << takes a mapping or a list of mappings"),
        ("b: &b {<<: *b}", "c:1:12: alias *b contains itself"),
        ("{<<: {k: 1}, <<: {l: 2}}", "c:1:14: a second merge key (<<: [*a, *b] merges several)"),
    ],
)
def test_hostile_text_ends_in_one_line(text: str | bytes, message: str) -> None:
    with at_most(2), pytest.raises(ConfigError) as raised:
        parse_documents(text, source="c")
    assert str(raised.value) == message


def test_scalars_are_read_as_go_reads_them() -> None:
    text = "[off, yes, y, 0644, 0o644, 0x1f, 1_000, 1.5, 1e3, '1', true, True, null, ~, 1:30, 2001-01-01, .5, 08, -7]"
    (node,) = parse_documents(text)
    assert plain(node) == [
        "off", "yes", "y", 420, 420, 31, 1000, 1.5, 1000.0, "1", True, True, None, None, "1:30", "2001-01-01", 0.5, 8.0, -7,
    ]  # fmt: skip


def test_aliases_work() -> None:
    (node,) = parse_documents("a: &a {k: 1, l: 2}\nc: *a\n")
    assert plain(node) == {"a": {"k": 1, "l": 2}, "c": {"k": 1, "l": 2}}


def test_the_version_of_yaml_may_be_written() -> None:
    assert [plain(node) for node in parse_documents("%YAML 1.1\n---\na: yes\n")] == [{"a": "yes"}]


def test_merge_keys_add_what_is_not_there() -> None:
    text = "a: &a {k: 1, l: 2}\nb: &b {<<: *a, k: 3, m: 4}\nc: {m: 5, <<: [*b, {l: 6, n: 7}]}\n"
    (node,) = parse_documents(text)
    assert plain(node) == {
        "a": {"k": 1, "l": 2},
        "b": {"k": 3, "l": 2, "m": 4},
        "c": {"k": 3, "l": 2, "m": 5, "n": 7},
    }


def test_merge_keys_do_not_multiply_what_they_merge() -> None:
    lines = [
        "a0: &a0 {k: 1}",
        *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], x{n}: 1}}" for n in range(1, 60)),
    ]
    with at_most(2), pytest.raises(ConfigError, match="too many values, aliases counted as often"):
        parse_documents("\n".join(lines))


def test_a_quoted_merge_key_is_a_text() -> None:
    (node,) = parse_documents("'<<': {k: 1}\n")
    assert plain(node) == {"<<": {"k": 1}}


def test_anchors_end_with_their_document() -> None:
    with pytest.raises(ConfigError, match="refers to nothing"):
        parse_documents("a: &a 1\n---\nb: *a\n")


def test_empty_documents_are_left_out() -> None:
    assert [plain(node) for node in parse_documents("---\n---\na: 1\n---\nnull\n...\n")] == [{"a": 1}]
    assert parse_documents("") == []


def test_random_bytes_never_raise_anything_else() -> None:
    generator = random.Random(7)
    seeds = [b"version: v1alpha1\nmachine: {type: worker}\n", b"a: &x [1, *x]\n", b"- |\n  x\n"]
    for _ in range(3000):
        text = bytearray(generator.choice(seeds))
        for _ in range(generator.randrange(1, 4)):
            text[generator.randrange(len(text))] = generator.randrange(256)
        try:
            for node in parse_documents(bytes(text)):
                plain(node)
        except ConfigError:
            pass


ALPHABET = "ab \n\t'\":#-*&![]{},|>%@`?0123.eE+_~=<\\\x1b\u0085\u2028é€😀"


def test_what_is_written_is_read_back() -> None:
    generator = random.Random(3)
    for _ in range(4000):
        text = "".join(generator.choice(ALPHABET) for _ in range(generator.randrange(8)))
        for value in ({"key": text}, {"key": [text, {"deep": text}, [text]]}, {f"k{text}": "v"}):
            written = to_yaml(value)
            assert [plain(node) for node in parse_documents(written)] == [value], written


@pytest.mark.parametrize(
    "word", ["off", "yes", "0644", "1:30", "2001-01-01", "2_.", "1.", "null", "true", "0x1", "~", ""]
)
def test_other_readers_take_texts_for_texts(word: str) -> None:
    assert yaml_text.read(to_yaml({"key": word})) == {"key": word}


def test_style_is_that_of_config_files() -> None:
    value: dict[str, Any] = {
        "empty": [],
        "none": {},
        "list": [{"name": "x", "below": ["y"], "map": {"k": None}}],
        "mode": FileMode(0o644),
        "text": "a\nb\n",
        "word": "off",
    }
    assert to_yaml(value) == (
        "empty: []\n"
        "none: {}\n"
        "list:\n"
        "    - name: x\n"
        "      below:\n"
        "        - \"y\"\n"
        "      map:\n"
        "        k: null\n"
        "mode: 0o644\n"
        "text: |\n"
        "    a\n"
        "    b\n"
        "word: \"off\"\n"
    )  # fmt: skip


def test_a_text_of_megabytes_is_read_and_not_multiplied() -> None:
    manifest = "".join(f"    line {at}\n" for at in range(500_000))
    text = f"name: a\nmanifest: &m |\n{manifest}"
    assert len(text) > 5 << 20
    (node,) = parse_documents(text)
    assert plain(node)["manifest"].endswith("line 499999\n")
    with pytest.raises(ConfigError, match="too much text, aliases counted as often as they are used"):
        parse_documents(f"{text}again: *m\n")
