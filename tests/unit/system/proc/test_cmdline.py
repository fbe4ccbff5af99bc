"""The kernel's command line."""

from talos.system.proc.cmdline import parse_cmdline


def test_cmdline() -> None:
    cmdline = parse_cmdline('talos.platform=metal console=tty0 console=ttyS0 quiet a="b c" x="open\n')
    assert cmdline.first("talos.platform") == "metal"
    assert cmdline.all("console") == ("tty0", "ttyS0")
    assert cmdline.has("quiet")
    assert cmdline.is_on("quiet")
    assert not cmdline.is_on("console")
    assert cmdline.first("missing", "none") == "none"
    assert parse_cmdline('a="b c" d').all("a") == ("b c",)
