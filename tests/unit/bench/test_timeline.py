"""The timeline of a boot, from a log."""

from tests.bench.timeline import draw, parse_log

LOG = """\
[    4.196068] Run /init as init process
[    5.145862] device-mapper: verity: sha256 using "sha256-ni"
[    9.853748] [talos] 2026-11-21T08:58:58.888Z Talos v1.15.0 begins
firmware says something
[   20.000000] [talos] 2026-11-21T08:59:10.955Z service[apid](Running): Health check successful
[   30.000000] [talos] 2026-11-21T08:59:20.955Z service[apid](Running): Health check successful
"""


def test_timeline() -> None:
    milestones = parse_log(LOG.splitlines())
    assert [milestone.at for milestone in milestones] == [4.196068, 5.145862, 9.853748, 20.0]
    rows = draw(milestones).splitlines()
    assert rows[0].startswith("   4.20 s  kernel: hardware, drivers")
    assert rows[-1].count("#") == 25
    assert draw([]).startswith("no milestone")
