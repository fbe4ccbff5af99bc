"""The figures of a ping's packets."""

from talos.api.ping_summary import make_summary
from talos.api.probe import probe_pb2 as pb


def test_the_summary_has_the_figures_of_the_replies() -> None:
    summary = make_summary(4, [0.001, 0.002, 0.003])
    assert (summary.sent, summary.received) == (4, 3)
    found = [summary.min, summary.avg, summary.max, summary.deviation]
    assert [duration.ToMicroseconds() for duration in found] == [1000, 2000, 3000, 816]
    assert make_summary(2, []) == pb.PingSummary(sent=2)
