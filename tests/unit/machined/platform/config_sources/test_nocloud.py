"""Seeds of nocloud."""

import pytest

from talos.config.read.tree import MAX_BYTES
from talos.machined.platform.config_sources.nocloud import find_seed, parse_hostname
from talos.system.errors import UserError
from talos.system.files import KernelFiles
from talos.system.proc.cmdline import parse_cmdline


def test_a_seed_may_be_somewhere_in_the_web() -> None:
    arguments = parse_cmdline("a ds=nocloud;s=http://10.0.2.2/seed/;h=node b")
    assert find_seed(KernelFiles(), arguments) == {"s": "http://10.0.2.2/seed/", "h": "node"}
    assert find_seed(KernelFiles(), parse_cmdline("a b")) == {}
    assert parse_hostname(b"") == ""
    with pytest.raises(UserError, match="meta-data"):
        parse_hostname(b"a: [")
    with pytest.raises(UserError, match="meta-data"):
        parse_hostname(b"text")


def test_meta_data_is_read_with_bounds() -> None:
    assert parse_hostname(b"local-hostname: a\nhostname: b\n") == "a"
    assert parse_hostname(b"# nothing\n") == ""
    lines = [f"k{n}: &k{n} [*k{n - 1}, *k{n - 1}, *k{n - 1}, *k{n - 1}]" for n in range(1, 20)]
    multiplying = "\n".join(["k0: &k0 [x, x]", *lines])
    for text in (b"a: " + b"x" * MAX_BYTES, multiplying.encode(), b"a: &a [*a]"):
        with pytest.raises(UserError, match="meta-data: this is no YAML"):
            parse_hostname(text)
