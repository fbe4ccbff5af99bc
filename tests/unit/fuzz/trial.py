"""One parser before thousands of inputs."""

import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tests.harness.processor import at_most

from talos.system.errors import UserError

from .mutation import inputs

EXAMPLES = 3000
MAX_SECONDS = 1.0
"""Seconds of processor time for one input of 64 KiB at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parser:
    """What is tried: a function, good inputs, the errors by which it refuses others."""

    parse: Callable[[bytes], object]
    seeds: Sequence[bytes]
    refusals: tuple[type[Exception], ...] = (UserError,)
    examples: int = EXAMPLES


def tries(parser: Parser) -> Iterator[bytes]:
    """The inputs of this run."""
    seconds = float(os.environ.get("FUZZ_SECONDS", "0"))
    if not seconds:
        yield from itertools.islice(inputs(parser.seeds, 1), parser.examples)
        return
    end = time.monotonic() + seconds
    for data in inputs(parser.seeds, time.time_ns()):
        if time.monotonic() > end:
            return
        yield data


def check_parser(parser: Parser) -> None:
    """Each input is accepted, or refused in the one way it may be, and soon."""
    for data in tries(parser):
        try:
            with at_most(MAX_SECONDS), suppress(*parser.refusals):
                parser.parse(data)
        except Exception as error:
            raise AssertionError(f"{error!r} for {data!r}") from error
