"""What requests for probes may have: values that are out of bounds are refused, with the bounds."""

from dataclasses import dataclass

from google.protobuf.duration_pb2 import Duration

from talos.api.durations import format_duration
from talos.api.rpc import Code, RpcError

_NANOSECONDS = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A whole number of a request, and what it is when it is absent."""

    name: str
    minimum: int
    maximum: int
    default: int

    def check(self, value: int) -> int:
        """The value; RpcError."""
        if not self.minimum <= value <= self.maximum:
            raise RpcError(
                Code.INVALID_ARGUMENT,
                f"{self.name} {value} is out of bounds: give {self.minimum} to {self.maximum}",
            )
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time of a request in seconds, and what it is when it is absent."""

    name: str
    minimum: float
    maximum: float
    default: float

    def read(self, value: Duration, *, is_given: bool) -> float:
        """The seconds; RpcError."""
        if not is_given:
            return self.default
        seconds = value.ToNanoseconds() / _NANOSECONDS
        if not self.minimum <= seconds <= self.maximum:
            bounds = f"{format_duration(self.minimum)} to {format_duration(self.maximum)}"
            raise RpcError(
                Code.INVALID_ARGUMENT,
                f"{self.name} {format_duration(seconds)} is out of bounds: give {bounds}",
            )
        return seconds
