"""Plots of figures in a page."""

import re

import pytest
from tests.bench.plots import draw_bars, find_row, make_memory, make_upgrade, split_row

PAGE = """
| PSS MiB | control plane | worker |
|---|---|---|
| machined | 40.2 | 35.6 |
| kubed | 15.0 | 11.8 |
| networkd; clusterd | 14.1; 13.9 | 14.3; 11.7 |
| trustd | 11.0 | |
| apid | 10.0 | 10.4 |
| routerd; zygote | 8.1; 8.0 | 8.5; 8.4 |
| containerd, two | 47.1 | 31.8 |
| etcd, its shim | 39.3, 8.9 | |

| what | figure |
|---|---|
| pulled; signature, every byte; slot written | 1.2; 1.3; 24.4 s |
"""


def test_rows_have_several_figures() -> None:
    assert list(split_row(PAGE, "networkd", 1)) == [("networkd", 14.3), ("clusterd", 11.7)]
    assert find_row(PAGE, "trustd") == ["11.0", ""]
    with pytest.raises(LookupError, match="no row that begins with 'timed'"):
        find_row(PAGE, "timed")


def test_bars_are_as_long_as_their_figures() -> None:
    plot = draw_bars("A <title>", "ms", [("own", 50.0, False), ("peer & co", 100.0, True)])
    assert "<title>A &lt;title&gt;</title>" in plot
    assert "peer &amp; co</text>" in plot
    own, peer = re.findall(r'<rect(?: class="peer")? x="300" y="\d+" width="([\d.]+)"', plot)
    assert float(peer) == 2 * float(own)
    assert plot.count('class="peer"') == 1


def test_what_is_not_of_this_project_is_grey() -> None:
    plot = make_memory(PAGE)
    assert plot.count("<rect") == 10
    assert plot.count('<rect class="peer"') == 2
    assert "1.3 s</text>" in make_upgrade(PAGE)
