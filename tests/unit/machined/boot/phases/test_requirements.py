"""Arguments that a kernel has to be started with."""

import pytest

from talos.machined.boot.phases.requirements import check_arguments
from talos.system.errors import UserError
from talos.system.proc.cmdline import parse_cmdline


def test_a_kernel_without_its_protection_is_refused() -> None:
    check_arguments(parse_cmdline("slab_nomerge= pti=on"))
    check_arguments(parse_cmdline("slab_nomerge pti=auto pti=on"))
    for text, named in (
        ("pti=on", "without slab_nomerge= "),
        ("slab_nomerge= pti=off", "without pti=on"),
        ("slab_nomerge= pti=on pti=off", "without pti=on"),
        ("", "slab_nomerge= and pti=on"),
    ):
        with pytest.raises(UserError, match=named):
            check_arguments(parse_cmdline(text))
