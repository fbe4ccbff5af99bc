"""Configs on the kernel's command line."""

import base64

import pytest
from tests.unit.system.zstd import pack

from talos.machined.platform.config_sources.inline import decode_inline
from talos.system.errors import UserError
from talos.system.proc.cmdline import parse_cmdline


def test_a_config_on_the_command_line_may_be_in_pieces() -> None:
    text = base64.b64encode(pack(b"version: v1alpha1\n")).decode()
    whole = parse_cmdline(f"a talos.config.inline={text[:10]} b=c talos.config.inline={text[10:]}")
    assert decode_inline(whole, "talos.config.inline") == b"version: v1alpha1\n"
    assert decode_inline(whole, "talos.config.early") == b""
    for wrong in ("%%", "abcd", text[:16]):
        with pytest.raises(UserError, match=r"talos\.config\.early"):
            decode_inline(parse_cmdline(f"talos.config.early={wrong}"), "talos.config.early")
