"""Seeds of nocloud."""

import pytest

from talos.config.read.tree import MAX_BYTES
from talos.machined.platform.clouds.nocloud import find_seed, read_meta_data
from talos.system.errors import UserError
from talos.system.files import KernelFiles
from talos.system.proc.cmdline import parse_cmdline


def test_a_seed_may_be_somewhere_in_the_web() -> None:
    arguments = parse_cmdline("a ds=nocloud;s=http://10.0.2.2/seed/;h=node b")
    assert find_seed(KernelFiles(), arguments) == {"s": "http://10.0.2.2/seed/", "h": "node"}
    assert find_seed(KernelFiles(), parse_cmdline("a b")) == {}
    assert read_meta_data(b"") == {}
    with pytest.raises(UserError, match="meta-data"):
        read_meta_data(b"a: [")
    with pytest.raises(UserError, match="meta-data"):
        read_meta_data(b"text")


def test_meta_data_is_read_with_bounds() -> None:
    assert read_meta_data(b"local-hostname: a\nhostname: b\n") == {"local-hostname": "a", "hostname": "b"}
    assert read_meta_data(b"# nothing\n") == {}
    lines = [f"k{n}: &k{n} [*k{n - 1}, *k{n - 1}, *k{n - 1}, *k{n - 1}]" for n in range(1, 20)]
    multiplying = "\n".join(["k0: &k0 [x, x]", *lines])
    for text in (b"a: " + b"x" * MAX_BYTES, multiplying.encode(), b"a: &a [*a]"):
        with pytest.raises(UserError, match="meta-data: this is no YAML"):
            read_meta_data(text)
