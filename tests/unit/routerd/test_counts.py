"""Counts of calls: bounded, whatever methods callers name."""

from talos.api.metrics import metrics_pb2
from talos.routerd.counts import BOUNDS, OTHER, CallCounts

MEMORY = "/machine.MachineService/Memory"
EVENTS = "/machine.MachineService/Events"


def read(counts: CallCounts) -> dict[str, metrics_pb2.Method]:
    return {one.method: one for one in metrics_pb2.ReadResponse.FromString(counts.encode()).methods}


def test_calls_are_counted_by_method_code_and_latency() -> None:
    counts = CallCounts()
    for code, seconds in ((0, 0.001), (0, 0.005), (0, 0.02), (7, 0.5), (0, 60.0)):
        counts.add(MEMORY, code, seconds)
    found = read(counts)[MEMORY]
    assert {result.code: result.count for result in found.results} == {0: 4, 7: 1}
    assert [bucket.seconds for bucket in found.buckets] == list(BOUNDS)
    assert [bucket.count for bucket in found.buckets] == [2, 3, 3, 4, 4, 5]
    assert round(found.seconds, 3) == 60.526


def test_streams_have_no_latency() -> None:
    counts = CallCounts()
    counts.add(EVENTS, 1, 3600.0)
    found = read(counts)[EVENTS]
    assert [(result.code, result.count) for result in found.results] == [(1, 1)]
    assert not found.buckets
    assert not found.seconds


def test_methods_that_do_not_exist_are_counted_as_one() -> None:
    counts = CallCounts()
    for number in range(1000):
        counts.add(f"/machine.MachineService/New{number}", 12, 0.1)
    assert list(read(counts)) == [OTHER]


def test_the_bytes_are_a_part_of_a_reply() -> None:
    counts = CallCounts()
    counts.add(MEMORY, 0, 0.1)
    other = metrics_pb2.ReadResponse(controllers=[metrics_pb2.Controller(name="a", runs=1)])
    whole = metrics_pb2.ReadResponse.FromString(other.SerializeToString() + counts.encode())
    assert [one.name for one in whole.controllers] == ["a"]
    assert [one.method for one in whole.methods] == [MEMORY]
