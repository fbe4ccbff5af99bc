"""What a container shows as its memory."""

from talos.system.proc.meminfo import limit_meminfo, parse_meminfo

HOST = """\
MemTotal:       24683676 kB
MemFree:          912332 kB
MemAvailable:   15012332 kB
Buffers:          204800 kB
SwapTotal:       1048576 kB
HugePages_Total:       3
"""


def test_no_more_is_shown_than_the_limit() -> None:
    found = parse_meminfo(limit_meminfo(HOST, 2 << 30))
    assert found == {
        "MemTotal": 2097152,
        "MemFree": 912332,
        "MemAvailable": 2097152,
        "Buffers": 204800,
        "SwapTotal": 0,
        "HugePages_Total": 3,
    }


def test_a_limit_beyond_the_host_changes_nothing() -> None:
    found = parse_meminfo(limit_meminfo(HOST, 1 << 40))
    assert found == parse_meminfo(HOST) | {"SwapTotal": 0}
