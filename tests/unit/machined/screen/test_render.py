"""The summary screen's rows, as text."""

from dataclasses import replace

import pytest

from talos.machined.screen.render import ScreenRow, Style, render, sanitize
from talos.machined.screen.summary import ServiceLine, Summary

RUNNING = Summary(
    hostname="node-1",
    version="v1.15.0",
    stage="running",
    ready=True,
    machine_type="controlplane",
    uuid="4c4c4544-0042",
    serial="7HQ2",
    secure_boot=True,
    signing_key="9A:0F:" * 15 + "9A:0F",
    addresses=("10.5.0.2/24", "fd00::2/64"),
    gateways=("10.5.0.1",),
    resolvers=("10.5.0.1", "9.9.9.9"),
    services=(
        ServiceLine(id="apid", state="", is_good=True),
        ServiceLine(id="timed", state="", is_good=True),
    ),
    cpu_percent=7,
    memory_used=311,
    memory_total=1401,
    log=("[    1.000] one", "[    2.000] two"),
)
RUNNING_ROWS = """\
 node-1   Talos v1.15.0                                          running, ready

Type        controlplane
Machine     UUID 4c4c4544-0042, serial 7HQ2
Secure Boot on, key 9A:0F:9A:0F:9A:0F:9A:0F:9A:0F:9A:0F:9A:0F:9A:0F:9A:0F:9A:0F
            :9A:0F:9A:0F:9A:0F:9A:0F:9A:0F:9A:0F
Addresses   10.5.0.2/24, fd00::2/64
Gateway     10.5.0.1
Resolvers   10.5.0.1, 9.9.9.9
Load        processors 7 % used, 311 of 1401 MiB used
Services    apid, timed

-------------------------------------------------------------------------------
[    1.000] one
[    2.000] two"""

MAINTENANCE = replace(
    RUNNING,
    stage="maintenance",
    secure_boot=False,
    machine_type="",
    maintenance=True,
    fingerprint="u5bTwa3Z5rb7vUGbVbEkbrYkVyvHGYZQBYAxJoEcNFc=",
    services=(ServiceLine(id="apid", state="(waiting)", is_good=False),),
    log=(),
)
MAINTENANCE_ROWS = """\
 node-1   Talos v1.15.0                                      maintenance, ready

Type        -
Machine     UUID 4c4c4544-0042, serial 7HQ2
Secure Boot off
Addresses   10.5.0.2/24, fd00::2/64
Gateway     10.5.0.1
Resolvers   10.5.0.1, 9.9.9.9
Load        processors 7 % used, 311 of 1401 MiB used
Services    apid (waiting)

This machine has no config and waits for one. From your workstation:
  talosctl apply-config --insecure --nodes 10.5.0.2 --cert-fingerprint \\
    'u5bTwa3Z5rb7vUGbVbEkbrYkVyvHGYZQBYAxJoEcNFc=' --file CONFIG.yaml

Fingerprint of its certificate: u5bTwa3Z5rb7vUGbVbEkbrYkVyvHGYZQBYAxJoEcNFc=

-------------------------------------------------------------------------------"""


def text_of(rows: list[ScreenRow]) -> str:
    return "\n".join(row.text.rstrip() for row in rows).rstrip()


@pytest.mark.parametrize(
    ("summary", "expected"),
    [(RUNNING, RUNNING_ROWS), (MAINTENANCE, MAINTENANCE_ROWS)],
    ids=["running", "new"],
)
def test_screen(summary: Summary, expected: str) -> None:
    assert text_of(render(summary, 80, 25)) == expected


def test_what_is_missing_stands_out() -> None:
    rows = render(replace(RUNNING, ready=False, missing=("time: not in sync", "services: apid")), 80, 25)
    assert [row.text for row in rows if row.style is Style.BAD] == [
        "Waiting for time: not in sync",
        "            services: apid",
    ]
    assert rows[0].text.endswith("running, not ready ")


@pytest.mark.parametrize("size", [(80, 25), (40, 8), (200, 60), (20, 3), (80, 1)])
def test_every_size_is_filled_and_not_exceeded(size: tuple[int, int]) -> None:
    noisy = replace(MAINTENANCE, log=tuple(f"{number} {'x' * 300}" for number in range(100)))
    rows = render(noisy, *size)
    assert len(rows) == size[1]
    assert max(len(row.text) for row in rows) <= max(size[0], 40)
    if size[1] >= 8:
        assert rows[-1].text.startswith("x")


def test_nothing_is_known_yet() -> None:
    assert "(no name yet)" in render(Summary(), 80, 25)[0].text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1bcreset", "reset"),
        ("a\rb\x9bc\x00\x7f", "a?b?c??"),
        ("tab\tübung", "tab ?bung"),
    ],
)
def test_hostile_text_is_harmless(text: str, expected: str) -> None:
    assert sanitize(text) == expected
    rows = render(replace(RUNNING, log=(text,), hostname=text, missing=(text,)), 80, 25)
    assert all(" " <= character <= "~" for row in rows for character in row.text)
