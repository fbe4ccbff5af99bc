"""What controllers have done so far, counted as they run: the counts are read, never written anywhere."""

import time

from google.protobuf.empty_pb2 import Empty

from talos.api.metrics import metrics_pb2
from talos.api.rpc import Call, Service

READ_METHOD = "/talos.metrics.MetricsService/Read"


class Activity:
    """The rounds of one controller."""

    __slots__ = ("_began", "failures", "runs", "seconds")

    def __init__(self) -> None:
        self.runs = 0
        self.failures = 0
        self.seconds = 0.0
        self._began: float | None = None

    def begin_round(self) -> None:
        """A round begins."""
        self.runs += 1
        self._began = time.monotonic()

    def end_round(self) -> None:
        """It has ended; nothing happens between two rounds."""
        if self._began is not None:
            self.seconds += time.monotonic() - self._began
            self._began = None

    def end_with_failure(self) -> None:
        """It has failed, or the controller has outside of a round."""
        self.end_round()
        self.failures += 1


type Activities = dict[str, Activity]
"""By the names of the controllers, whose number is fixed."""


def make_part(activities: Activities) -> metrics_pb2.ReadResponse:
    """The part of a reply that has a daemon's controllers."""
    return metrics_pb2.ReadResponse(
        controllers=[
            metrics_pb2.Controller(
                name=name, runs=activity.runs, failures=activity.failures, seconds=activity.seconds
            )
            for name, activity in activities.items()
        ]
    )


def make_part_service(activities: Activities) -> Service:
    """``talos.metrics.MetricsService`` of a daemon beside PID 1: its part, for PID 1 alone."""

    async def read(_request: Empty, _call: Call) -> metrics_pb2.ReadResponse:
        return make_part(activities)

    return Service(metrics_pb2.DESCRIPTOR.services_by_name["MetricsService"], {"Read": read})
