"""The kernel's command line."""

import pytest

from talos.system.proc.cmdline import hide_secrets, parse_cmdline


def test_cmdline() -> None:
    cmdline = parse_cmdline('talos.platform=metal console=tty0 console=ttyS0 quiet a="b c" x="open\n')
    assert cmdline.first("talos.platform") == "metal"
    assert cmdline.all("console") == ("tty0", "ttyS0")
    assert cmdline.has("quiet")
    assert cmdline.is_on("quiet")
    assert not cmdline.is_on("console")
    assert cmdline.first("missing", "none") == "none"
    assert parse_cmdline('a="b c" d').all("a") == ("b c",)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('quiet  a="b c" console=ttyS0', 'quiet  a="b c" console=ttyS0'),
        ("talos.config=https://me:pass@word@h/x?a=b c=d", "talos.config=https://h/x?a=*** c=d"),
        (
            "talos.config=https://h/?u=${uuid}&t=s&b#f c=d",
            "talos.config=https://h/?u=${uuid}&t=***&***#f c=d",
        ),
        ("talos.config=https://h/a@b", "talos.config=https://h/a@b"),
        (
            "x talos.config.inline=KLUv talos.config.early=AA== y",
            "x talos.config.inline=*** talos.config.early=*** y",
        ),
        ('"talos.config.inline=KL Uv" y', '"talos.config.inline=***" y'),
        ('talos.config.inline="KL Uv" y', "talos.config.inline=*** y"),
        ("talos.config.oauth.client_secret=s", "talos.config.oauth.client_secret=***"),
        ("siderolink.api=grpc://h:1?jointoken=s&x=y", "siderolink.api=grpc://h:1?jointoken=***&x=***"),
        ("talos.environment=http_proxy=http://u:p@proxy", "talos.environment=http_proxy=http://proxy"),
    ],
)
def test_readers_see_no_secret(text: str, shown: str) -> None:
    assert hide_secrets(text) == shown
