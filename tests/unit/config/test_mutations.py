"""Documents with random damage: a clear error or a config that survives being written, never a crash."""

import contextlib
import random

from tests.unit.config.samples import ALL_KINDS, make_plain

from talos.config.change.diff import diff
from talos.config.change.patch import apply_patches, parse_patch
from talos.config.check.validate import Mode, validate
from talos.config.problem import ConfigError
from talos.config.read.loader import dump, load
from talos.resource.yaml.text import to_yaml

ROUNDS = 600
VALUES = (
    "null", "[]", "{}", "5", "-1", "'x'", r'"\ud800"', r'"\U0001F600"', "9" * 400, "9" * 400 + "GiB",
    "9" * 400 + "h", "\uff11GiB", "https://[", "https://a:b", "!!binary x", "&a *a", "<<",
    "1e999", ".inf", "0x", "10.0.0.1/99", "::/0",
    "x\0", "|\n  y", "{<<: 5}", "{<<: [1, {a: b}]}", "{$patch: delete}",
    "0o9", "~", "2001-01-01", "-5%", '""',
)  # fmt: skip


def damage(text: str, generator: random.Random) -> str:
    lines = text.split("\n")
    for _ in range(generator.randrange(1, 4)):
        at = generator.randrange(len(lines))
        if ":" in lines[at] and generator.random() < 0.8:
            lines[at] = lines[at].split(":")[0] + ": " + generator.choice(VALUES)
        elif generator.random() < 0.5:
            lines.insert(at, generator.choice(lines))
        elif len(lines) > 1:
            del lines[at]
    return "\n".join(lines)


def test_damaged_documents(worker: str) -> None:
    generator = random.Random(11)
    texts = [to_yaml(make_plain(kind)) for kind in ALL_KINDS]
    for _ in range(ROUNDS):
        text = damage(generator.choice(texts), generator)
        try:
            config = load(text)
        except ConfigError:
            pass
        else:
            validate(config, Mode.METAL, partial=True)
            assert load(dump(config)) == config
            diff(None, config)
        with contextlib.suppress(ConfigError):
            apply_patches(worker, [parse_patch(text)])


def test_what_was_once_written_wrongly() -> None:
    for value in ('2001-01-01 - "1" - two', "1e999", "1:30\\", "0o-1"):
        text = f"apiVersion: v1alpha1\nkind: KubeletConfig\nimage: x\n{to_yaml({'config': {'a': value}})}"
        config = load(text)
        assert load(dump(config)) == config
